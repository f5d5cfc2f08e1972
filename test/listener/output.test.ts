import { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { Output } from '../../src/listener/output.js'

/** A socket whose writes are taken down, each as it would reach the system. */
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
