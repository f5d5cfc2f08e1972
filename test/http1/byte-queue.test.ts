import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { malformed } from '../../src/errors.js'
import { ByteQueue } from '../../src/http1/byte-queue.js'

const tooLong = () => malformed('too long', 431)

function queue(...pieces: string[]): ByteQueue {
  const bytes = new ByteQueue()
  for (const piece of pieces) bytes.push(Buffer.from(piece, 'latin1'))
  return bytes
}

t.test('a line ends in CRLF and is returned without it (RFC 9112 §2.2)', async t => {
  const bytes = queue('one\r\n\r\ntwo\r\nthr')
  t.equal(bytes.line(9, tooLong), 'one')
  t.equal(bytes.line(9, tooLong), '')
  t.equal(bytes.line(9, tooLong), 'two')
  t.equal(bytes.line(9, tooLong), undefined)
  bytes.push(Buffer.from('ee\r'))
  t.equal(bytes.line(9, tooLong), undefined)
  bytes.push(Buffer.from('\n'))
  t.equal(bytes.line(9, tooLong), 'three')
  t.equal(bytes.length, 0)
})

t.test('a bare CR or a bare LF is refused wherever the line was divided (RFC 9112 §2.2)', async t => {
  for (const line of ['\n', 'a\n', 'a\rb\r\n', '\r\r\n', 'a\r\r\n', '\ra\r\n']) {
    for (let at = 0; at <= line.length; at++) {
      const bytes = queue(line.slice(0, at), line.slice(at))
      t.throws(
        () => bytes.line(9, tooLong),
        { name: 'ProxyError', status: 400, message: 'bare CR or LF' },
        JSON.stringify(line),
      )
    }
  }
})

t.test('a line of exactly the limit is accepted and one byte more is not', async t => {
  for (const limit of [0, 1, 7]) {
    t.equal(queue(`${'x'.repeat(limit)}\r\n`).line(limit, tooLong), 'x'.repeat(limit))
    t.throws(() => queue(`${'x'.repeat(limit + 1)}\r\n`).line(limit, tooLong), {
      name: 'ProxyError',
      status: 431,
    })
    t.throws(
      () => queue('x'.repeat(limit + 2)).line(limit, tooLong),
      { name: 'ProxyError', status: 431 },
      'before its end comes',
    )
    t.equal(queue('x'.repeat(limit + 1)).line(limit, tooLong), undefined, 'the last byte may be the CR')
  }
})

t.test('lines longer than the converted window are complete', async t => {
  for (const length of [4094, 4095, 4096, 4097, 8192, 10_000]) {
    const line = 'y'.repeat(length)
    const bytes = queue(`a\r\n${line}\r\nb\r\n`)
    t.equal(bytes.line(20_000, tooLong), 'a')
    t.equal(bytes.line(20_000, tooLong), line)
    t.equal(bytes.line(20_000, tooLong), 'b')
  }
})

t.test('bytes above 0x7f are one character each (RFC 9110 §5.5)', async t => {
  const line = Array.from({ length: 128 }, (_, i) => String.fromCharCode(128 + i)).join('')
  t.equal(queue(`${line}\r\n`).line(200, tooLong), line)
})

t.test('content is returned as views of the chunks, and lines can be read after it', async t => {
  const chunk = Buffer.from('abcdef')
  const bytes = new ByteQueue()
  bytes.push(Buffer.alloc(0))
  t.equal(bytes.take(5), undefined)
  bytes.push(chunk)
  bytes.push(Buffer.from('gh\r\n'))
  t.equal(bytes.length, 10)
  const view = bytes.take(4)
  t.equal(view?.toString(), 'abcd')
  t.equal(view?.buffer, chunk.buffer, 'not copied')
  t.equal(bytes.take(4)?.toString(), 'ef', 'no further than the chunk goes')
  t.equal(bytes.take(1)?.toString(), 'g')
  t.equal(bytes.line(9, tooLong), 'h')
  t.equal(bytes.take(1), undefined)
  bytes.push(chunk)
  t.equal(bytes.take(6), chunk, 'a chunk that is wanted whole is the chunk itself')
})

t.test('content far beyond the converted text does not disturb the next line', async t => {
  const bytes = queue(`l\r\n${'z'.repeat(9000)}end\r\n`)
  t.equal(bytes.line(9, tooLong), 'l')
  t.equal(bytes.take(9000)?.length, 9000)
  t.equal(bytes.line(9, tooLong), 'end')
})

t.test('drain returns all unread bytes, in order, once', async t => {
  const bytes = queue('abc\r\nd', 'e', 'f')
  t.equal(bytes.line(9, tooLong), 'abc')
  t.equal(bytes.drain().toString(), 'def')
  t.equal(bytes.length, 0)
  t.equal(bytes.drain().length, 0)
  bytes.push(Buffer.from('g\r\n'))
  t.equal(bytes.line(9, tooLong), 'g')
})

t.test('the beginning of a line counts as unread until the line is read', async t => {
  const bytes = queue('abc')
  t.equal(bytes.line(9, tooLong), undefined)
  t.equal(bytes.length, 3)
})

t.test('received bytes are counted whether they were read or not', async t => {
  const bytes = queue('ab', '', 'c')
  t.equal(bytes.received, 3)
  bytes.take(2)
  bytes.push(Buffer.from('de'))
  t.equal(bytes.received, 5)
  t.equal(bytes.drain().toString(), 'cde')
  t.equal(bytes.received, 5)
})

t.test('bytes pushed between two takes come after those that wait', async t => {
  const bytes = queue('aa', 'bb')
  t.equal(bytes.take(2)?.toString(), 'aa')
  bytes.push(Buffer.from('cc'))
  t.equal(bytes.drain().toString(), 'bbcc')
})

/** Bytes of memory in use, on the heap and outside. */
function heldMemory(): number {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  if (typeof collect === 'function') collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** The unread bytes, in the pieces in which they are held. */
function pieces(bytes: ByteQueue): Buffer[] {
  const taken: Buffer[] = []
  for (let piece = bytes.take(1 << 30); piece !== undefined; piece = bytes.take(1 << 30)) taken.push(piece)
  return taken
}

t.test('small chunks that wait are joined: 64 KiB in single bytes become a few buffers', async t => {
  const bytes = new ByteQueue()
  const sent = Buffer.from(Array.from({ length: 65_536 }, (_, i) => i % 251))
  for (const byte of sent) bytes.push(Buffer.of(byte))
  t.equal(bytes.length, 65_536)
  const held = pieces(bytes)
  t.ok(held.length <= 6, `${held.length} pieces`)
  t.ok(Buffer.concat(held).equals(sent), 'in order')
})

t.test('large chunks are not copied, and small ones between them keep their order', async t => {
  const bytes = new ByteQueue()
  const large = [Buffer.alloc(1024, 'A'), Buffer.alloc(5000, 'B')] as const
  const pushed = ['a', 'b', large[0], 'c', 'd', large[1], large[0], 'e'].map(piece => Buffer.from(piece))
  pushed[2] = large[0]
  pushed[5] = large[1]
  for (const piece of pushed) bytes.push(piece)
  const held = pieces(bytes)
  t.equal(Buffer.concat(held).toString(), Buffer.concat(pushed).toString())
  t.equal(held.find(piece => piece.length === 1024)?.buffer, large[0].buffer)
  t.equal(held.find(piece => piece.length === 5000)?.buffer, large[1].buffer)
})

t.test('a chunk that was taken does not change when further ones arrive', async t => {
  const bytes = queue('a', 'b', 'c')
  t.equal(bytes.take(1)?.toString(), 'a')
  const joined = bytes.take(9)
  bytes.push(Buffer.from('d'))
  bytes.push(Buffer.from('e'))
  t.equal(joined?.toString(), 'bc')
  t.equal(bytes.drain().toString(), 'de')
})

t.test('a line that arrives one byte at a time needs no more memory than its bytes', async t => {
  const count = 1 << 20
  const bytes = new ByteQueue()
  const before = heldMemory()
  for (let i = 0; i < count; i++) {
    bytes.push(Buffer.of(120))
    bytes.line(count, tooLong)
  }
  const more = heldMemory() - before
  t.ok(more < 8 * count, `${more} bytes`)
  t.equal(bytes.length, count)
})
