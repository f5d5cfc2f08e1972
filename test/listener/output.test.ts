import { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { Output } from '../../src/listener/output.js'

/** A socket whose writes are taken down, each as it would reach the system, and takes no more before `take`. */
function recorded(t: Test): { socket: Socket; writes: string[]; take(): void } {
  const socket = new Socket()
  const writes: string[] = []
  const callbacks: (() => void)[] = []
  const push = (chunks: { chunk: Buffer }[], callback: () => void): void => {
    writes.push(Buffer.concat(chunks.map(({ chunk }) => chunk)).toString('latin1'))
    callbacks.push(callback)
  }
  socket._write = (chunk, encoding, callback) => push([{ chunk: Buffer.from(chunk, encoding) }], callback)
  socket._writev = (chunks, callback) =>
    push(
      chunks.map(({ chunk, encoding }) => ({ chunk: Buffer.from(chunk, encoding) })),
      callback,
    )
  t.teardown(() => socket.destroy())
  return { socket, writes, take: () => callbacks.shift()?.() }
}

const turn = () => new Promise<void>(resolve => queueMicrotask(resolve))

t.test('what is written in one turn leaves together', async t => {
  const { socket, writes } = recorded(t)
  const output = new Output(socket)
  output.write('a\xff')
  output.write('')
  output.write(Buffer.from('b'))
  t.same(writes, [])
  await turn()
  t.same(writes, ['a\xffb'])
})

t.test('large pieces leave together too', async t => {
  const { socket, writes } = recorded(t)
  const output = new Output(socket)
  const large = 'x'.repeat(100_000)
  output.write('head')
  output.write(Buffer.from(large))
  output.write('tail')
  output.flush()
  t.equal(writes.join(''), `head${large}tail`)
  t.ok(writes.length <= 2)
  await turn()
  t.equal(writes.join(''), `head${large}tail`, 'and once')
})

t.test('a later turn is a later write', async t => {
  const { socket, writes, take } = recorded(t)
  const output = new Output(socket)
  output.write('a')
  await turn()
  take()
  output.write('b')
  await turn()
  t.same(writes, ['a', 'b'])
})

t.test('is congested from the high-water mark on, written or not', async t => {
  const { socket } = recorded(t)
  const output = new Output(socket)
  output.write(Buffer.alloc(socket.writableHighWaterMark - 1))
  t.notOk(output.congested)
  output.flush()
  t.notOk(output.congested)
  output.write('x')
  t.ok(output.congested)
  output.flush()
  t.ok(output.congested)
})

t.test('writes nothing to a socket that is closed', async t => {
  const { socket, writes } = recorded(t)
  const output = new Output(socket)
  output.write('a')
  socket.destroy()
  await turn()
  output.write('b')
  output.flush()
  t.same(writes, [])
})

t.test('chunked content of one turn is one chunk, however small its pieces (RFC 9112 §7.1)', async t => {
  const { socket, writes, take } = recorded(t)
  const output = new Output(socket)
  output.write('head')
  for (let i = 0; i < 1000; i++) output.writeChunked(Buffer.from('x'))
  await turn()
  t.same(writes, [`head3e8\r\n${'x'.repeat(1000)}\r\n`])
  take()
  output.writeChunked(Buffer.from('y'))
  output.write('0\r\n\r\n')
  await turn()
  t.equal(writes[1], '1\r\ny\r\n0\r\n\r\n', 'and ends where something else follows')
})

t.test('a large chunk is the piece itself, with its size in front (RFC 9112 §7.1)', async t => {
  const { socket, writes } = recorded(t)
  const output = new Output(socket)
  const large = Buffer.alloc(20_000, 'x')
  output.writeChunked(large)
  output.writeChunked(Buffer.from('y'))
  output.flush()
  t.equal(writes.join(''), `4e21\r\n${large}y\r\n`)
})

t.test('an empty piece of content does not end chunked content (RFC 9112 §7.1)', async t => {
  const { socket, writes } = recorded(t)
  const output = new Output(socket)
  for (const piece of ['', 'a', '', 'b', '']) output.writeChunked(Buffer.from(piece))
  output.write('0\r\n\r\n')
  await turn()
  t.same(writes, ['2\r\nab\r\n0\r\n\r\n'])
  const empty = recorded(t)
  const none = new Output(empty.socket)
  none.writeChunked(Buffer.alloc(0))
  await turn()
  none.flush()
  t.same(empty.writes, [])
})

t.test('many small pieces of one turn are joined, however many bytes they are together', async t => {
  const { socket } = recorded(t)
  const writes: unknown[] = []
  const output = new Output(socket)
  const write = socket.write.bind(socket)
  t.intercept(socket, 'write', {
    value: (...args: Parameters<typeof write>) => writes.push(args) > 0 && write(...args),
  })
  for (let i = 0; i < 40_000; i++) output.write(Buffer.from('x'))
  output.flush()
  t.equal(writes.length, 1)
})

t.test('what is written to a client that takes nothing waits in few pieces, in order', async t => {
  const { socket, writes, take } = recorded(t)
  const output = new Output(socket)
  const waiting: number[] = []
  const write = socket.write.bind(socket)
  t.intercept(socket, 'write', {
    value: (...args: Parameters<typeof write>) => waiting.push(socket.writableLength) > 0 && write(...args),
  })
  let sent = ''
  for (let i = 0; i < 10_000; i++) {
    const piece = String.fromCharCode(97 + (i % 26))
    sent += piece
    output.write(Buffer.from(piece))
    await turn()
  }
  t.equal(waiting.length, 2, 'one that the system has, and one whose end is told')
  take()
  take()
  t.equal(waiting.length, 3)
  t.equal(writes.join(''), sent)
  output.write('end')
  await turn()
  output.flush()
  take()
  take()
  t.equal(writes.join(''), `${sent}end`)
})

t.test('flush hands over what waits', async t => {
  const { socket, writes, take } = recorded(t)
  const output = new Output(socket)
  for (const piece of ['a', 'b', 'c', 'd']) {
    output.write(piece)
    await turn()
  }
  output.flush()
  socket.end()
  take()
  take()
  t.equal(writes.join(''), 'abcd')
})
