import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { turns } from '../kit/peers/until-stable.js'
import { BufferedReader, ReadBuffers, StreamReader } from '../../src/tunnel/socket-reader.js'

const SHARED_BYTES = 32 * 1024
const LARGE_BYTES = 256 * 1024
const COPY_BELOW = 16 * 1024

/** Reads like a socket: fills the given buffer and calls back with it. */
function read(reader: BufferedReader, bytes: number, fill: string): boolean {
  const buffer = reader.onRead.buffer()
  buffer.fill(fill, 0, bytes)
  return reader.onRead.callback(bytes, buffer)
}

function started(buffers = new ReadBuffers(), wanted = true): { reader: BufferedReader; pieces: Buffer[] } {
  const reader = new BufferedReader(buffers)
  const pieces: Buffer[] = []
  reader.start(COPY_BELOW, piece => {
    pieces.push(piece)
    return wanted
  })
  return { reader, pieces }
}

t.test('quiet readers share one buffer, but not their bytes', async t => {
  const buffers = new ReadBuffers()
  const [one, two] = [started(buffers), started(buffers)]
  t.equal(one.reader.onRead.buffer(), two.reader.onRead.buffer())
  read(one.reader, 3, 'a')
  read(two.reader, 4, 'b')
  read(one.reader, SHARED_BYTES - 1, 'c')
  t.same(one.pieces.map(String), ['aaa', 'c'.repeat(SHARED_BYTES - 1)])
  t.same(two.pieces.map(String), ['bbbb'])
})

t.test('a reader that fills the shared buffer gets a large buffer of its own', async t => {
  for (const [bytes, size] of [
    [SHARED_BYTES - 1, SHARED_BYTES],
    [SHARED_BYTES, LARGE_BYTES],
  ] as const) {
    const { reader } = started()
    read(reader, bytes, 'a')
    t.equal(reader.onRead.buffer().length, size)
    t.equal(reader.onRead.buffer(), reader.onRead.buffer())
  }
})

t.test('a reader keeps its large buffer while it is busy, and is quiet after a small read', async t => {
  for (const [bytes, size] of [
    [LARGE_BYTES, LARGE_BYTES],
    [SHARED_BYTES / 2, LARGE_BYTES],
    [SHARED_BYTES / 2 - 1, SHARED_BYTES],
    [1, SHARED_BYTES],
  ] as const) {
    const { reader } = started()
    read(reader, SHARED_BYTES, 'a')
    read(reader, bytes, 'b')
    t.equal(reader.onRead.buffer().length, size, `${bytes} bytes`)
  }
})

t.test('small pieces are copies, large ones are views of the buffer', async t => {
  const { reader, pieces } = started()
  read(reader, SHARED_BYTES, 'a')
  const large = reader.onRead.buffer()
  read(reader, COPY_BELOW, 'b')
  read(reader, COPY_BELOW - 1, 'c')
  const [shared, view, copy] = pieces
  t.not(shared?.buffer, large.buffer)
  t.equal(view?.buffer, large.buffer)
  t.equal(view?.length, COPY_BELOW)
  t.not(copy?.buffer, large.buffer)
  t.equal(String(shared), 'a'.repeat(SHARED_BYTES))
})

t.test('the return value of the consumer is that of the callback', async t => {
  t.equal(read(started().reader, 1, 'a'), true)
  t.equal(read(started(new ReadBuffers(), false).reader, 1, 'a'), false)
})

t.test('what is read before there is a consumer is kept, in order', async t => {
  const reader = new BufferedReader(new ReadBuffers())
  t.equal(read(reader, 3, 'a'), true)
  t.equal(read(reader, SHARED_BYTES, 'b'), true)
  t.equal(read(reader, LARGE_BYTES, 'c'), true)
  t.equal(read(reader, 1, 'd'), true)
  const pieces: string[] = []
  reader.start(COPY_BELOW, piece => {
    pieces.push(String(piece))
    return true
  })
  t.same(pieces, ['aaa', 'b'.repeat(SHARED_BYTES), 'c'.repeat(LARGE_BYTES), 'd'])
})

t.test('a consumer may start another one, which gets all that follows, in order', async t => {
  const reader = new BufferedReader(new ReadBuffers())
  for (const fill of ['a', 'b', 'c']) read(reader, 1, fill)
  const got: string[] = []
  reader.start(COPY_BELOW, piece => {
    got.push(`first ${piece}`)
    reader.start(COPY_BELOW, later => got.push(`second ${later}`) > 0)
    return true
  })
  read(reader, 1, 'd')
  t.same(got, ['first a', 'second b', 'second c', 'second d'])
})

t.test('a large buffer is returned with the first small piece, and reused next', async t => {
  const buffers = new ReadBuffers()
  const { reader } = started(buffers)
  read(reader, SHARED_BYTES, 'a')
  const large = reader.onRead.buffer()
  read(reader, LARGE_BYTES, 'b')
  t.equal(reader.onRead.buffer(), large, 'not while it is busy')
  read(reader, 1, 'c')
  const other = started(buffers).reader
  read(other, SHARED_BYTES, 'd')
  t.equal(other.onRead.buffer(), large)
  const third = started(buffers).reader
  read(third, SHARED_BYTES, 'e')
  t.not(third.onRead.buffer(), large, 'given back once, lent once')
})

t.test('a large buffer is not returned while a piece is a view of it', async t => {
  const buffers = new ReadBuffers()
  const reader = new BufferedReader(buffers)
  reader.start(1024, () => false)
  read(reader, SHARED_BYTES, 'a')
  const large = reader.onRead.buffer()
  read(reader, 1024, 'b')
  t.not(buffers.takeLarge(), large)
  read(reader, 1, 'c')
  reader.release()
  t.equal(buffers.takeLarge(), large)
})

t.test('a released reader has no buffer and passes nothing on', async t => {
  const buffers = new ReadBuffers()
  const { reader, pieces } = started(buffers)
  read(reader, SHARED_BYTES, 'a')
  const large = reader.onRead.buffer()
  reader.release()
  reader.release()
  t.equal(buffers.takeLarge(), large)
  t.not(buffers.takeLarge(), large)
  t.equal(read(reader, 1, 'b'), true)
  t.equal(pieces.length, 1)
})

t.test('a limited number of spare buffers is kept', async t => {
  const buffers = new ReadBuffers()
  const all = Array.from({ length: 17 }, () => buffers.takeLarge())
  for (const buffer of all) buffers.giveLarge(buffer)
  const again = Array.from({ length: 17 }, () => buffers.takeLarge())
  t.equal(again.filter(buffer => all.includes(buffer)).length, 16)
})

t.test('passes bytes to the last consumer, those that were taken back first', async t => {
  const stream = new PassThrough()
  const reader = new StreamReader(stream as unknown as Socket)
  stream.write('before')
  const first: string[] = []
  reader.start(0, chunk => {
    first.push(chunk.toString())
    return true
  })
  await turns()
  t.same(first, ['before'])
  stream.pause()
  reader.unread(Buffer.from('back'))
  reader.unread(Buffer.alloc(0))
  const second: string[] = []
  reader.start(0, chunk => {
    second.push(chunk.toString())
    return second.length < 2
  })
  t.same(second, ['back'])
  stream.resume()
  stream.write('more')
  await turns()
  t.same(second, ['back', 'more'])
  t.equal(stream.isPaused(), true, 'false stops it')
  reader.release()
  stream.resume()
  stream.end('last')
  await turns()
  t.same([first.length, second.length], [1, 2])
})
