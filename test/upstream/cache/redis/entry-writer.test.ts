/** What entries that are being written hold in memory, whatever is sent to. */
import t from 'tap'
import { PIECE_BYTES } from '../../../../src/upstream/cache/redis/entry-record.js'
import {
  type EntryTarget,
  RedisEntryWriter,
  WriteQueue,
} from '../../../../src/upstream/cache/redis/entry-writer.js'
import { turns } from '../../../kit/peers/until-stable.js'

const MIB = 1024 * 1024

/** Notes the memory of each piece, and takes it when the test says so. */
class Target implements EntryTarget {
  readonly recordBytes = 100
  readonly memory: ArrayBufferLike[] = []
  readonly waiting: ((error?: Error) => void)[] = []
  discarded = 0

  putPiece(_index: number, piece: Buffer): Promise<void> {
    this.memory.push(piece.buffer)
    return new Promise((resolve, reject) => {
      this.waiting.push(error => (error === undefined ? resolve() : reject(error)))
    })
  }

  async commit(): Promise<undefined> {
    return undefined
  }

  discard(): void {
    this.discarded++
  }
}

function writer(queue: WriteQueue, target: Target, length?: number): RedisEntryWriter {
  return new RedisEntryWriter({ target, queue, length, ending: () => {} })
}

t.test('the memory of pieces that were taken is used again', async t => {
  const [queue, target] = [new WriteQueue(4 * MIB), new Target()]
  for (const length of [undefined, 100 * PIECE_BYTES]) {
    const entry = writer(queue, target, length)
    for (let i = 0; i < 100; i++) {
      entry.write(Buffer.alloc(PIECE_BYTES))
      for (const take of target.waiting.splice(0)) take()
      await turns(1)
    }
    const ended = entry.end()
    for (const take of target.waiting.splice(0)) take()
    await ended
  }
  t.equal(target.memory.length, 200)
  t.ok(new Set(target.memory).size <= 4, `${new Set(target.memory).size} pieces`)
})

t.test('the memory of a piece that could not be sent is not', async t => {
  const [queue, target] = [new WriteQueue(4 * MIB), new Target()]
  const failing = writer(queue, target)
  failing.write(Buffer.alloc(2 * PIECE_BYTES))
  const [failed] = target.memory
  for (const take of target.waiting.splice(0)) take(new Error('closed'))
  await turns(1)
  t.ok(failing.isGivenUp)
  t.equal(target.discarded, 1)
  const next = writer(queue, target)
  next.write(Buffer.alloc(10 * PIECE_BYTES))
  t.notOk(target.memory.slice(1).includes(failed as ArrayBufferLike))
  next.abort()
})

t.test(
  'no more than four times what may wait is being filled, and there is room again afterwards',
  async t => {
    const queue = new WriteQueue(4 * MIB)
    const fill = (): RedisEntryWriter => {
      const entry = writer(queue, new Target())
      entry.write(Buffer.alloc(PIECE_BYTES))
      return entry
    }
    for (let round = 0; round < 2; round++) {
      const writers = Array.from({ length: 256 }, fill)
      t.ok(
        writers.every(({ isGivenUp }) => !isGivenUp),
        '16 MiB',
      )
      t.ok(fill().isGivenUp)
      t.notOk(queue.full, 'none of that waits to be taken')
      for (const each of writers) each.abort()
    }
  },
)
