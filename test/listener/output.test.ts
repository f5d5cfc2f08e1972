import { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { ConnectionState } from '../../src/http1/connection-state.js'
import { ResponseOutput } from '../../src/listener/output.js'

/** The head before content that ends with the connection, and before chunked content. */
const HEAD = 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'
const CHUNKED_HEAD = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

/** Events that are ignored. */
const SILENT = { congested() {}, responded() {}, aborted() {} }

/** The output of a connection on which a response has begun, whose content is written by the test. */
function responding(socket: Socket, minor: 0 | 1 = 0, events: string[] = []): ResponseOutput {
  const output = new ResponseOutput(socket, new ConnectionState(), {
    congested: () => void events.push('congested'),
    responded: () => void events.push('responded'),
    aborted: () => void events.push('aborted'),
  })
  output.begin({ method: 'GET', minor, persistent: minor === 1 })
  output.head({ status: 200, reason: 'OK', fields: [] })
  return output
}

/** A socket that records its writes as the system would receive them, and accepts no more before `take`. */
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

t.test('everything written in one turn is sent in one call', async t => {
  const { socket, writes } = recorded(t)
  const output = responding(socket)
  output.write(Buffer.from('a\xff', 'latin1'))
  output.write(Buffer.alloc(0))
  output.write(Buffer.from('b'))
  t.same(writes, [])
  await turn()
  t.same(writes, [`${HEAD}a\xffb`])
})

t.test('large pieces are sent in one call as well', async t => {
  const { socket, writes } = recorded(t)
  const output = responding(socket)
  const large = 'x'.repeat(100_000)
  output.write(Buffer.from(large))
  output.write(Buffer.from('tail'))
  output.flush()
  t.equal(writes.join(''), `${HEAD}${large}tail`)
  t.ok(writes.length <= 2)
  await turn()
  t.equal(writes.join(''), `${HEAD}${large}tail`, 'and once')
})

t.test('a later turn is a later write', async t => {
  const { socket, writes, take } = recorded(t)
  const output = responding(socket)
  output.write(Buffer.from('a'))
  await turn()
  take()
  output.write(Buffer.from('b'))
  await turn()
  t.same(writes, [`${HEAD}a`, 'b'])
})

t.test('is congested from the high-water mark on, whether passed to the system or not', async t => {
  const { socket } = recorded(t)
  const events: string[] = []
  const output = responding(socket, 0, events)
  t.equal(output.write(Buffer.alloc(socket.writableHighWaterMark - HEAD.length - 1)), true)
  t.notOk(output.congested)
  output.flush()
  t.notOk(output.congested)
  t.same(events, [])
  t.equal(output.write(Buffer.from('x')), false)
  t.ok(output.congested)
  t.same(events, ['congested'], 'and its connection is notified')
  output.flush()
  t.ok(output.congested)
})

t.test('writes nothing to a closed socket', async t => {
  const { socket, writes } = recorded(t)
  const output = responding(socket)
  output.write(Buffer.from('a'))
  socket.destroy()
  await turn()
  output.write(Buffer.from('b'))
  output.flush()
  t.same(writes, [])
})

t.test('chunked content of one turn is one chunk, however small its pieces (RFC 9112 §7.1)', async t => {
  const { socket, writes, take } = recorded(t)
  const output = responding(socket, 1)
  for (let i = 0; i < 1000; i++) output.write(Buffer.from('x'))
  await turn()
  t.same(writes, [`${CHUNKED_HEAD}3e8\r\n${'x'.repeat(1000)}\r\n`])
  take()
  output.write(Buffer.from('y'))
  output.end()
  await turn()
  t.equal(writes[1], '1\r\ny\r\n0\r\n\r\n', 'and ends where something else follows')
})

t.test('a large chunk is sent without a copy, after its size (RFC 9112 §7.1)', async t => {
  const { socket, writes } = recorded(t)
  const output = responding(socket, 1)
  const large = Buffer.alloc(20_000, 'x')
  output.write(large)
  output.write(Buffer.from('y'))
  output.flush()
  t.equal(writes.join(''), `${CHUNKED_HEAD}4e21\r\n${large}y\r\n`)
})

t.test('large and small pieces of one turn are one chunk, in order (RFC 9112 §7.1)', async t => {
  const { socket, writes, take } = recorded(t)
  const output = responding(socket, 1)
  const large = 'x'.repeat(20_000)
  let sent = ''
  for (const piece of ['a', large, 'b', 'c', large, large, 'd\xff']) {
    sent += piece
    output.write(Uint8Array.from(Buffer.from(piece, 'latin1')))
  }
  output.end()
  await turn()
  take()
  const chunk = `${sent.length.toString(16)}\r\n${sent}\r\n`
  t.equal(writes.join(''), `${CHUNKED_HEAD}${chunk}0\r\n\r\n`)
})

t.test('an empty piece of content does not end chunked content (RFC 9112 §7.1)', async t => {
  const { socket, writes } = recorded(t)
  const output = responding(socket, 1)
  for (const piece of ['', 'a', '', 'b', '']) output.write(Buffer.from(piece))
  output.end()
  await turn()
  t.same(writes, [`${CHUNKED_HEAD}2\r\nab\r\n0\r\n\r\n`])
  const empty = recorded(t)
  const none = responding(empty.socket, 1)
  none.write(Buffer.alloc(0))
  await turn()
  none.flush()
  t.same(empty.writes, [CHUNKED_HEAD])
})

t.test('many small pieces of one turn are joined, whatever their total length', async t => {
  const { socket } = recorded(t)
  const writes: unknown[] = []
  const output = responding(socket)
  const write = socket.write.bind(socket)
  t.intercept(socket, 'write', {
    value: (...args: Parameters<typeof write>) => writes.push(args) > 0 && write(...args),
  })
  for (let i = 0; i < 40_000; i++) output.write(Buffer.from('x'))
  output.flush()
  t.equal(writes.length, 1)
})

t.test('what is written for a client that does not read waits in few pieces, in order', async t => {
  const { socket, writes, take } = recorded(t)
  const output = responding(socket)
  const waiting: number[] = []
  const write = socket.write.bind(socket)
  t.intercept(socket, 'write', {
    value: (...args: Parameters<typeof write>) => waiting.push(socket.writableLength) > 0 && write(...args),
  })
  let sent = HEAD
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
  output.write(Buffer.from('end'))
  await turn()
  output.flush()
  take()
  take()
  t.equal(writes.join(''), `${sent}end`)
})

t.test('flush passes on everything that waits', async t => {
  const { socket, writes, take } = recorded(t)
  const output = responding(socket)
  for (const piece of ['a', 'b', 'c', 'd']) {
    output.write(Buffer.from(piece))
    await turn()
  }
  output.flush()
  socket.end()
  take()
  take()
  t.equal(writes.join(''), `${HEAD}abcd`)
})

t.test('a head has one byte for each character', async t => {
  const { socket, writes } = recorded(t)
  const output = new ResponseOutput(socket, new ConnectionState(), SILENT)
  output.begin({ method: 'GET', minor: 1, persistent: true })
  output.interim(103, 'Early Hints', ['Link', '\xff'])
  await turn()
  t.same(writes, ['HTTP/1.1 103 Early Hints\r\nLink: \xff\r\n\r\n'])
})

t.test('what a handler writes after its request has ended early is not sent', async t => {
  const { socket, writes } = recorded(t)
  const events: string[] = []
  const output = responding(socket, 1, events)
  output.write(Buffer.from('a'))
  output.mute()
  t.equal(
    output.write(Buffer.alloc(socket.writableHighWaterMark)),
    true,
    'whoever writes on is not held back',
  )
  output.onDrain(() => events.push('drained'))
  output.end()
  output.abort()
  output.flush()
  t.same(writes, [`${CHUNKED_HEAD}1\r\na\r\n`])
  t.same(events, [])
  t.equal(output.bytes, 1 + socket.writableHighWaterMark, 'all of it is counted')
})

t.test('an error response replaces what a handler would send, and the next request has its own', async t => {
  const { socket, writes } = recorded(t)
  const events: string[] = []
  const state = new ConnectionState()
  const output = new ResponseOutput(socket, state, {
    congested: () => void events.push('congested'),
    responded: () => void events.push('responded'),
    aborted: () => void events.push('aborted'),
  })
  state.onRequest('head')
  state.onRequest('end')
  output.begin({ method: 'GET', minor: 1, persistent: true })
  output.mute()
  output.answer({ status: 403, reason: 'No', fields: [], contentLength: 2 }, Buffer.from('no'))
  t.same(events, ['responded'])
  for (const write of [() => output.write(Buffer.from('x')), () => output.end(), () => output.abort()])
    write()
  state.onRequest('next')
  state.onResponse('next')
  output.begin({ method: 'GET', minor: 1, persistent: true })
  t.equal(output.bytes, 0)
  output.head({ status: 200, reason: 'OK', fields: [], contentLength: 1 })
  output.write(Buffer.from('y'))
  output.end()
  await turn()
  const answers = [
    'HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny',
  ]
  t.same(writes, [answers.join('')])
  t.same(events, ['responded', 'responded'])
})

t.test('such a response also waits for a client that does not keep up', async t => {
  const { socket, take } = recorded(t)
  const output = new ResponseOutput(socket, new ConnectionState(), SILENT)
  socket.on('drain', () => output.drained())
  output.begin({ method: 'GET', minor: 0, persistent: false })
  output.answer({ status: 403, reason: 'No', fields: [] }, Buffer.alloc(socket.writableHighWaterMark))
  let drained = 0
  output.onDrain(() => {
    drained += 1
  })
  await turn()
  t.ok(output.congested)
  t.equal(drained, 0)
  take()
  await new Promise(resolve => setImmediate(resolve))
  t.equal(drained, 1)
})

t.test(
  'onDrain waits for a client that does not keep up, also with what was written in this turn',
  async t => {
    const socket = new Socket()
    t.teardown(() => socket.destroy())
    let take = (): void => {}
    socket._write = (_chunk, _encoding, callback) => {
      take = callback
    }
    const response = new ResponseOutput(socket, new ConnectionState(), SILENT)
    socket.on('drain', () => response.drained())
    response.begin({ method: 'GET', minor: 1, persistent: true })
    response.head({ status: 200, reason: 'OK', fields: [], contentLength: 1 << 20 })
    t.notOk(response.congested)
    let drained = 0
    response.onDrain(() => {
      drained += 1
    })
    await new Promise(resolve => setImmediate(resolve))
    t.equal(drained, 1, 'at once where nobody is behind')
    take()
    await new Promise(resolve => setImmediate(resolve))
    // Nothing of it was passed to the socket yet.
    response.write(Buffer.alloc(socket.writableHighWaterMark))
    t.ok(response.congested)
    t.notOk(socket.writableNeedDrain)
    response.onDrain(() => {
      drained += 1
    })
    await new Promise(resolve => setImmediate(resolve))
    t.equal(drained, 1)
    take()
    await new Promise(resolve => setImmediate(resolve))
    t.equal(drained, 2)
  },
)
