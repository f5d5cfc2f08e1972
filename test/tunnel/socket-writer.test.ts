import { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { JoiningWriter, resetSocket } from '../../src/tunnel/socket-writer.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'

interface Slow {
  readonly socket: Socket
  /** Each write to the socket, by its bytes. */
  readonly writes: number[]
  /** The bytes that the system has taken. */
  readonly taken: string[]
  /** Makes the system take the last write. */
  take(): void
}

/** A socket whose peer reads nothing before `take`. */
function slow(t: Test): Slow {
  const socket = new Socket()
  const writes: number[] = []
  const taken: string[] = []
  const callbacks: (() => void)[] = []
  // A socket accepts text as it is.
  const text = (chunk: Buffer | string): string =>
    typeof chunk === 'string' ? chunk : chunk.toString('latin1')
  socket._write = (chunk, _encoding, callback) => {
    taken.push(text(chunk))
    callbacks.push(callback)
  }
  socket._writev = (chunks, callback) => {
    taken.push(chunks.map(({ chunk }) => text(chunk)).join(''))
    callbacks.push(callback)
  }
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean
  t.intercept(socket, 'write', {
    value: (...args: [{ length: number }, ...unknown[]]) => {
      writes.push(args[0].length)
      return write(...args)
    },
  })
  t.teardown(() => socket.destroy())
  return { socket, writes, taken, take: () => callbacks.shift()?.() }
}

const ticks = () => new Promise<void>(resolve => setImmediate(resolve))

t.test('writes at once what the system takes', async t => {
  const { socket, writes, take } = slow(t)
  const writer = new JoiningWriter(socket)
  for (const piece of ['a', 'b\xff', 'c']) {
    t.ok(writer.write(piece))
    take()
    await ticks()
  }
  t.same(writes, [1, 2, 1])
})

t.test('joins pieces while an earlier write is pending, and writes them after it', async t => {
  const { socket, writes, taken, take } = slow(t)
  const writer = new JoiningWriter(socket)
  for (let i = 0; i < 10_000; i++) writer.write(i % 2 === 0 ? 'x' : Buffer.of(0xff))
  t.same(writes, [1, 1])
  take()
  take()
  await ticks()
  t.same(writes, [1, 1, 9998])
  t.equal(taken.join(''), 'x\xff'.repeat(5000))
  take()
  await ticks()
  writer.write('y')
  t.same(writes.slice(3), [1], 'at once again')
})

t.test('holds at most 16 KiB, and reports that the peer reads too slowly', async t => {
  const { socket, writes } = slow(t)
  const writer = new JoiningWriter(socket)
  let accepted = 0
  while (writer.write('z')) accepted += 1
  t.ok(Math.max(...writes) < 16 * 1024, 'held')
  t.ok(accepted + 1 >= socket.writableHighWaterMark)
  t.ok(accepted < socket.writableHighWaterMark + 16 * 1024, `${accepted} bytes`)
  t.ok(writes.length <= 3 + socket.writableHighWaterMark / (16 * 1024), `${writes.length} writes`)
})

t.test('writes a large piece unjoined, after what is held', async t => {
  const { socket, writes, taken, take } = slow(t)
  const writer = new JoiningWriter(socket)
  for (const piece of ['a', 'b', 'c', 'd']) writer.write(piece)
  writer.write(Buffer.alloc(16 * 1024, 'L'))
  t.same(writes, [1, 1, 2, 16 * 1024])
  writer.write('e')
  writer.flush()
  take()
  take()
  await ticks()
  t.equal(taken.join(''), `abcd${'L'.repeat(16 * 1024)}e`)
})

t.test('writes several pieces with one system call, after what is held', async t => {
  const { socket, taken, take } = slow(t)
  const writer = new JoiningWriter(socket)
  for (const piece of ['a', 'b', 'c']) writer.write(piece)
  writer.writeTogether(['d', Buffer.from('e'), 'f'])
  take()
  t.same(taken, ['a', 'bcdef'])
})

t.test('drops what is held when the socket is closed', async t => {
  const { socket, writes } = slow(t)
  const writer = new JoiningWriter(socket)
  for (const piece of ['a', 'b', 'c']) writer.write(piece)
  socket.destroy()
  await ticks()
  writer.flush()
  t.same(writes, [1, 1])
})

t.test('resets a TCP connection', async t => {
  const origin = await rawOrigin(t)
  const client = await rawClient(t, origin.port)
  const peer = await origin.accept()
  resetSocket(client.socket)
  t.equal(await peer.outcome(), 'reset')
  t.ok(client.socket.destroyed)
  resetSocket(client.socket)
})

t.test('closes a connection whose FIN is being sent, as the system does not reset it', async t => {
  const origin = await rawOrigin(t)
  const { socket } = await rawClient(t, origin.port)
  const closed = new Promise(resolve => socket.once('close', resolve))
  socket.end()
  // The FIN is requested in the next tick, and sent in the next turn of the event loop.
  await new Promise<void>(resolve => process.nextTick(resolve))
  t.notOk(socket.writableFinished)
  resetSocket(socket)
  await closed
  t.equal(await (await origin.accept()).outcome(), 'end')
  t.ok(socket.destroyed)
})

t.test('closes a socket that cannot be reset', async t => {
  const socket = new Socket()
  t.intercept(socket, 'resetAndDestroy', {
    value: () => {
      throw new TypeError('not TCP')
    },
  })
  resetSocket(socket)
  t.ok(socket.destroyed)
})
