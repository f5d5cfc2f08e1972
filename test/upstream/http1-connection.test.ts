/** One connection to an origin: requests, responses, and every way in which they can get out of step (RFC 9112 §9). */
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { permitConfigured } from '../../src/policy/permit.js'
import { Dialer } from '../../src/upstream/dial.js'
import { Http1Connection } from '../../src/upstream/http1-connection.js'
import type { UpstreamRequest } from '../../src/upstream/sender.js'
import { policy } from '../kit/fakes/policy.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { GivenContent, Recorder, REQUEST } from './exchange-recorder.js'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const DIALER = new Dialer({
  resolver: { cached: () => undefined, resolve: async () => [] },
  inForce: { policy: policy({ rules: {} }) },
  connectTimeoutMs: 10_000,
  descriptors: NO_DESCRIPTOR_KEPT,
  now: () => performance.now(),
})

/** A connection, the origin's end of it, the notifications of its owner, and a function to send requests. */
async function connected(t: Test, keepAliveMs = 60_000) {
  const origin = await rawOrigin(t)
  const permit = permitConfigured('test', { kind: 'ipv4', name: '127.0.0.1' }, origin.port, ['127.0.0.1'])
  const dialled = await DIALER.connect(permit, new AbortController().signal)
  const owned: string[] = []
  const owner = { give: () => owned.push('given'), remove: () => owned.push('removed') }
  const limits = { headerBytes: 16_384, headerFields: 100 }
  const connection = new Http1Connection(dialled, 'key', { limits, keepAliveMs }, owner)
  t.teardown(() => connection.close())
  const peer = await origin.accept()
  const send = (request: Partial<UpstreamRequest> = {}, onConnected?: (isSent: boolean) => void) => {
    const recorder = new Recorder()
    if (onConnected !== undefined) recorder.onConnected = onConnected
    const cancel = connection.send({ ...REQUEST, ...request }, recorder)
    return { recorder, cancel }
  }
  /** Sends one request and its response, so that the connection has been used. */
  const use = async () => {
    const { recorder } = send()
    await peer.until('\r\n\r\n')
    peer.write(OK)
    await recorder.done
  }
  return { origin, connection, peer, owned, send, use, socket: dialled.socket }
}

t.test('reports events in order', async t => {
  const { peer, owned, send } = await connected(t)
  const { recorder } = send()
  t.equal(await peer.until('\r\n\r\n'), 'GET / HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n')
  peer.write('HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 Fine\r\nX: \xff\r\nTransfer-Encoding: chunked\r\n\r\n')
  peer.write('2\r\nok\r\n0\r\nX-T: a\r\n\r\n')
  await recorder.done
  t.same(recorder.told, ['connected', 'sent', 'interim 103', 'responded 200', 'data 2', 'ended X-T a'])
  t.match(recorder.heads, [{ status: 200, minor: 1, reason: 'Fine', contentLength: undefined }])
  t.same(owned, ['given'])
})

t.test(
  'a request that the system takes at once is reported as sent together with its connection',
  async t => {
    const { peer, send, socket } = await connected(t)
    const known: boolean[] = []
    const written: unknown[] = []
    const write = socket.write.bind(socket) as (...args: unknown[]) => boolean
    t.intercept(socket, 'write', {
      value: (...args: unknown[]) => {
        written.push(args.map(arg => typeof arg))
        return write(...args)
      },
    })
    const { recorder } = send({}, isSent => known.push(isSent))
    t.same([recorder.told, known], [['connected', 'sent'], [true]], 'before the next tick')
    await peer.until('\r\n\r\n')
    peer.write(OK)
    await recorder.done
    t.same(written, [['string', 'string']], 'one write, without a callback')
  },
)

t.test('a request that the system does not take at once is reported as sent once it has', async t => {
  const { peer, owned, send, socket } = await connected(t)
  const take = socket._write.bind(socket)
  const waiting: (() => void)[] = []
  socket._write = (chunk, encoding, callback) => {
    waiting.push(() => take(chunk, encoding, callback))
  }
  for (const [connection, writes] of [
    ['connected', 2],
    ['reused', 1],
  ] as const) {
    const known: boolean[] = []
    const { recorder } = send({}, isSent => known.push(isSent))
    await turns()
    t.same([recorder.told, known], [[connection], [false]])
    let written = 0
    while (waiting.length > 0) {
      waiting.shift()?.()
      written += 1
      await turns()
    }
    t.same(
      [recorder.told, written],
      [[connection, 'sent'], writes],
      'only the first one has to find that out',
    )
    await peer.until('\r\n\r\n')
    peer.write(OK)
    await recorder.done
    t.equal(recorder.told.at(-1), 'ended')
  }
  t.same(owned, ['given', 'given'])
})

t.test('a response to a request that has not been sent completely closes the connection', async t => {
  const { peer, owned, send, socket } = await connected(t)
  socket._write = () => {}
  const { recorder } = send()
  peer.write(OK)
  await recorder.done
  t.same(recorder.told, ['connected', 'responded 200', 'data 2', 'ended'])
  t.equal(await peer.untilEnd(), '')
  t.same(owned, ['removed'])
})

t.test('the head is sent at once, content as it arrives (RFC 9112 §6)', async t => {
  const { peer, owned, send } = await connected(t)
  const content = new GivenContent(undefined)
  const { recorder } = send({ method: 'PUT', content, expectContinue: true })
  t.match(await peer.until('\r\n\r\n'), 'Expect: 100-continue\r\n')
  peer.write('HTTP/1.1 100 Continue\r\n\r\n')
  await untilStable(() => recorder.told.length, 20)
  content.give('hel')
  t.equal(await peer.until(8), '3\r\nhel\r\n')
  content.give('lo')
  t.equal(await peer.until(7), '2\r\nlo\r\n')
  t.same(recorder.told, ['connected', 'interim 100'], 'it is not sent before its end is')
  content.end(['X-T', 'a', 'Host', 'b'])
  t.equal(await peer.until('\r\n\r\n'), '0\r\nX-T: a\r\n\r\n')
  peer.write(OK)
  await recorder.done
  t.same(recorder.told.slice(2), ['sent', 'responded 200', 'data 2', 'ended'])
  t.same([owned, content.isStopped], [['given'], false])
})

t.test('content that is already available is sent together with the head', async t => {
  const { peer, send, socket } = await connected(t)
  let writes = 0
  const writev = socket._writev?.bind(socket)
  socket._writev = (chunks, callback) => {
    writes += 1
    writev?.(chunks, callback)
  }
  const { recorder } = send({ method: 'POST', content: new GivenContent(5, 'hel', 'lo') })
  t.match(await peer.until('hello'), 'Content-Length: 5\r\n')
  t.equal(writes, 1)
  await untilStable(() => recorder.told.length, 20)
  t.same(recorder.told, ['connected', 'sent'])
})

t.test('sends one request after another, each with its own response', async t => {
  const { peer, owned, send } = await connected(t)
  for (const method of ['GET', 'HEAD', 'POST', 'GET']) {
    const content = method === 'POST' ? new GivenContent(1, 'x') : undefined
    const { recorder } = send({ method, content })
    await peer.until(method === 'POST' ? '\r\n\r\nx' : '\r\n\r\n')
    peer.write(method === 'HEAD' ? OK.slice(0, -2) : OK)
    await recorder.done
    t.equal(recorder.content, method === 'HEAD' ? '' : 'ok')
  }
  t.same(owned, ['given', 'given', 'given', 'given'])
})

t.test('the next request may be sent while the end of the last response is reported', async t => {
  const { peer, send } = await connected(t)
  const first = send()
  const second = new Promise<Recorder>(resolve => {
    first.recorder.onTold = line => line === 'ended' && resolve(send().recorder)
  })
  await peer.until('\r\n\r\n')
  peer.write(OK)
  const { done } = await second
  await peer.until('\r\n\r\n')
  peer.write(OK)
  await done
})

t.test('a slow receiver slows the origin down, and nothing is lost', async t => {
  const { peer, send, socket } = await connected(t)
  const { recorder } = send()
  recorder.isPausing = true
  await peer.until('\r\n\r\n')
  const content = 'x'.repeat(4_000_000)
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\n\r\n${content}`)
  const stalled = await untilStable(() => socket.bytesRead)
  t.ok(stalled < content.length, `${stalled} bytes were read`)
  t.equal(recorder.told.filter(line => line.startsWith('data')).length, 1)
  recorder.isPausing = false
  recorder.flow?.resume()
  await recorder.done
  t.equal(recorder.content.length, content.length)
  t.equal(recorder.told.at(-1), 'ended')
})

t.test('a slow origin pauses the content, and resumes it', async t => {
  const { peer, send } = await connected(t)
  peer.socket.pause()
  const content = new GivenContent(40_000_000)
  send({ method: 'PUT', content })
  const piece = Buffer.alloc(100_000)
  let given = 0
  while (content.give(piece) === true) given += 1
  t.ok(given < 400, `${given} pieces`)
  t.equal(content.resumed, 0)
  peer.socket.resume()
  await untilStable(() => peer.received.length)
  t.equal(content.resumed, 1)
})

t.test('small pieces of content that an origin does not read are joined', async t => {
  for (const length of [undefined, 40_000_000]) {
    const { peer, send, socket } = await connected(t)
    const content = new GivenContent(length)
    send({ method: 'PUT', content })
    await peer.until('\r\n\r\n')
    peer.socket.pause()
    // It writes until the system takes no more.
    while (socket.writableLength === 0) {
      content.give(Buffer.alloc(100_000))
      await turns(1)
    }
    let written = 0
    const write = socket.write.bind(socket) as (...args: unknown[]) => boolean
    t.intercept(socket, 'write', {
      value: (...args: unknown[]) => {
        written += 1
        return write(...args)
      },
    })
    const before = socket.writableLength
    for (let i = 0; i < 10_000; i++) content.give('x')
    t.ok(written <= 8, `${written} pieces`)
    t.ok(socket.writableLength - before <= 64 * 1024)
    peer.socket.resume()
    await peer.until(length === undefined ? '1\r\nx\r\n'.repeat(10_000) : 'x'.repeat(10_000))
  }
})

t.test(
  'an early error response closes the connection, and the rest of the content is not sent (RFC 9112 §9.5)',
  async t => {
    for (const close of ['', 'Connection: close\r\n']) {
      const { peer, owned, send } = await connected(t)
      const content = new GivenContent(10, 'hel')
      const { recorder } = send({ method: 'PUT', content })
      await peer.until('hel')
      peer.write(`HTTP/1.1 413 No\r\n${close}Content-Length: 2\r\n\r\n`)
      await untilStable(() => recorder.told.length, 20)
      content.give('lo')
      if (close === '') t.equal(await peer.until('lo'), 'lo', 'it may still read on')
      peer.write('no')
      await recorder.done
      t.same(recorder.told, ['connected', 'responded 413', 'data 2', 'ended'])
      t.equal(await peer.untilEnd(), '')
      t.same([content.isStopped, owned], [true, ['removed']])
    }
  },
)

t.test('a response that begins before the end of the content may end after it', async t => {
  const { peer, owned, send } = await connected(t)
  const content = new GivenContent(undefined, 'a')
  const { recorder } = send({ method: 'POST', content })
  await peer.until('a\r\n')
  peer.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n')
  await untilStable(() => recorder.told.length, 20)
  content.give('b')
  content.end()
  await peer.until('0\r\n\r\n')
  peer.write('0\r\n\r\n')
  await recorder.done
  t.same(recorder.told, ['connected', 'responded 200', 'data 1', 'sent', 'ended'])
  t.same(owned, ['given'])
})

t.test(
  'a response is read before the reset that follows it, although writing fails (RFC 9112 §9.6)',
  async t => {
    for (const isPaused of [false, true]) {
      const { peer, send } = await connected(t)
      const content = new GivenContent(100_000_000)
      const { recorder } = send({ method: 'PUT', content })
      recorder.isPausing = isPaused
      await peer.until('\r\n\r\n')
      peer.socket.pause()
      content.give(Buffer.alloc(1_000_000))
      const answer = 'n'.repeat(30_000)
      peer.write(`HTTP/1.1 413 No\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`)
      // Unread content makes the system reset the connection when it is closed.
      peer.destroy()
      await untilStable(() => recorder.told.length, 50)
      content.give(Buffer.alloc(20_000_000))
      await untilStable(() => recorder.told.length, 50)
      recorder.isPausing = false
      recorder.flow?.resume()
      await recorder.done
      t.equal(recorder.told.at(-1), 'ended', `paused: ${isPaused}`)
      t.equal(recorder.content, answer)
    }
  },
)

t.test('a failed write is reported in the end if nothing more is received', async t => {
  const timers = pauseTimers(t, 5000)
  const { peer, send } = await connected(t)
  const content = new GivenContent(100_000_000)
  const { recorder } = send({ method: 'PUT', content })
  await peer.until('\r\n\r\n')
  content.give(Buffer.alloc(1_000_000))
  peer.reset()
  await recorder.done
  t.match(recorder.failures, [{ retry: 'never', error: { type: 'connection_terminated' } }])
  t.equal(timers.running, 0)
})

t.test('content delimited by the connection ends with a FIN, not with a reset (RFC 9112 §8)', async t => {
  for (const head of ['HTTP/1.1 200 OK\r\n\r\n', 'HTTP/1.0 200 OK\r\n\r\n']) {
    for (const end of ['end', 'reset'] as const) {
      const { peer, owned, send } = await connected(t)
      const { recorder } = send()
      await peer.until('\r\n\r\n')
      peer.write(`${head}hel`)
      await untilStable(() => recorder.content, 20)
      peer[end]()
      await recorder.done
      t.equal(recorder.content, 'hel')
      t.equal(recorder.told.at(-1), end === 'end' ? 'ended' : 'failed never')
      await peer.untilEnd()
      t.same(owned, ['removed'])
    }
  }
})

t.test('an origin that half-closes before its response is complete has failed (RFC 9112 §8)', async t => {
  for (const [bytes, type] of [
    ['', 'connection_terminated'],
    ['HTTP/1.1 200', 'connection_terminated'],
    ['HTTP/1.1 103 E\r\n\r\n', 'connection_terminated'],
    ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel', 'http_response_incomplete'],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n', 'http_response_incomplete'],
  ] as const) {
    const { peer, send } = await connected(t)
    const content = new GivenContent(5, 'a')
    const { recorder } = send({ method: 'PUT', content })
    await peer.until('\r\n\r\na')
    peer.write(bytes)
    peer.end()
    await recorder.done
    t.match(recorder.failures, [{ retry: 'never', error: { type, status: 502 } }], JSON.stringify(bytes))
    t.equal(content.isStopped, true)
    await peer.untilEnd()
  }
})

t.test(
  'a receiver that pauses gets the rest of a response although the connection has been closed',
  async t => {
    for (const end of ['end', 'reset'] as const) {
      const { peer, send } = await connected(t)
      const { recorder } = send()
      recorder.isPausing = true
      await peer.until('\r\n\r\n')
      const large = 'a'.repeat(0x1388)
      peer.write(
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n${large}\r\n2\r\ncd\r\n0\r\n\r\n`,
      )
      await untilStable(() => recorder.told.length, 20)
      peer[end]()
      await untilStable(() => recorder.told.length, 50)
      t.equal(recorder.content, large)
      recorder.flow?.resume()
      t.equal(recorder.content, `${large}cd`)
      recorder.flow?.resume()
      t.equal(recorder.told.at(-1), 'ended', end)
    }
  },
)

t.test('only an idempotent request on a reused connection may be sent again (RFC 9112 §9.3.1)', async t => {
  const body = () => new GivenContent(5, 'x')
  for (const [used, method, content, bytes, retry] of [
    [true, 'GET', undefined, '', 'reused-connection'],
    [true, 'DELETE', undefined, '', 'reused-connection'],
    [true, 'PUT', new GivenContent(5), '', 'reused-connection'],
    [true, 'PUT', body(), '', 'never'],
    [true, 'POST', undefined, '', 'never'],
    [true, 'PATCH', undefined, '', 'never'],
    [true, 'PROPFIND', undefined, '', 'never'],
    [true, 'GET', undefined, 'H', 'never'],
    [true, 'GET', undefined, '\r\n', 'never'],
    [false, 'GET', undefined, '', 'never'],
  ] as const) {
    for (const end of ['end', 'reset'] as const) {
      const { peer, send, use } = await connected(t)
      if (used) await use()
      const { recorder } = send({ method, content })
      await peer.until('\r\n\r\n')
      peer.write(bytes)
      if (bytes !== '') await turns()
      peer[end]()
      await recorder.done
      t.same(recorder.failures.length, 1)
      t.equal(recorder.failures[0]?.retry, retry, `${method} ${JSON.stringify(bytes)} ${end} ${used}`)
    }
  }
})

t.test('a malformed response closes the connection, and its request is not sent again', async t => {
  const { peer, send, use } = await connected(t)
  await use()
  const { recorder } = send()
  await peer.until('\r\n\r\n')
  peer.write('SSH-2.0-x\r\n')
  await recorder.done
  t.match(recorder.failures, [{ retry: 'never', error: { type: 'http_protocol_error', status: 502 } }])
  await peer.untilEnd()
})

t.test('a connection with unsolicited bytes is not reused (RFC 9112 §11.1)', async t => {
  for (const [bytes, at] of [
    ['x', 'with the answer'],
    ['\r\n', 'with the answer'],
    ['x', 'later'],
    ['\r\n', 'later'],
    ['HTTP/1.1 200 OK\r\n\r\n', 'later'],
  ] as const) {
    const { peer, connection, send } = await connected(t)
    const { recorder } = send()
    await peer.until('\r\n\r\n')
    peer.write(at === 'later' ? OK : OK + bytes)
    await recorder.done
    if (at === 'later') {
      t.equal(connection.isOpen, true)
      peer.write(bytes)
    }
    await peer.untilEnd()
    t.equal(connection.isOpen, false, `${JSON.stringify(bytes)} ${at}`)
    t.equal(recorder.content, 'ok')
  }
})

t.test('an idle connection that is closed is removed', async t => {
  for (const end of ['end', 'reset'] as const) {
    const { peer, connection, owned, use } = await connected(t)
    await use()
    peer[end]()
    await peer.untilEnd()
    await untilStable(() => connection.isOpen, 20)
    t.equal(connection.isOpen, false)
    t.same(owned, ['given', 'removed'])
  }
})

t.test('a connection is idle no longer than either side allows (RFC 9112 §9.3)', async t => {
  const hints = { '': 20, 'timeout=5': 20, 'timeout=1': 0, 'max=5, timeout=0': 0, 'timeout=x': 20 }
  for (const [hint, kept] of Object.entries(hints)) {
    const { peer, owned, send } = await connected(t, 20)
    const { recorder } = send()
    await peer.until('\r\n\r\n')
    peer.write(hint === '' ? OK : OK.replace('\r\n', `\r\nKeep-Alive: ${hint}\r\n`))
    await recorder.done
    t.equal(await peer.untilEnd(), '')
    t.same(owned[0], kept === 0 ? 'removed' : 'given', hint)
  }
  const timers = pauseTimers(t, 4000)
  const { peer, send } = await connected(t)
  const { recorder } = send()
  await peer.until('\r\n\r\n')
  peer.write(OK.replace('\r\n', '\r\nKeep-Alive: timeout=5\r\n'))
  await recorder.done
  t.same([timers.set, timers.running], [1, 1], 'a second before the origin does')
})

t.test(
  '101 to an offered Upgrade hands the connection over, with the bytes after it (RFC 9110 §7.8)',
  async t => {
    const { peer, owned, send, socket } = await connected(t)
    const { recorder, cancel } = send({ upgrade: 'websocket' })
    t.match(await peer.until('\r\n\r\n'), 'Connection: Upgrade\r\nUpgrade: websocket\r\n')
    peer.write('HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81')
    await recorder.done
    t.same(recorder.told, ['connected', 'sent', 'upgraded 101'])
    t.equal(recorder.socket, socket)
    t.same([recorder.rest, socket.isPaused(), owned], ['\x81', true, ['removed']])
    cancel()
    socket.on('data', (chunk: Buffer) => socket.write(chunk))
    socket.resume()
    peer.write('back')
    t.equal(await peer.until('back'), 'back')
    socket.destroy()
  },
)

t.test('the idle timeout does not close a connection that has been handed over', async t => {
  const timers = pauseTimers(t, 7_654_321)
  const { peer, send, use } = await connected(t, 7_654_321)
  await use()
  t.equal(timers.running, 1)
  const { recorder } = send({ upgrade: 'websocket' })
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n')
  await recorder.done
  t.equal(timers.running, 0)
  recorder.socket?.destroy()
})

t.test(
  'the idle timeout does not close a connection that carries a request, and starts again after the response',
  async t => {
    const { peer, connection, owned, send, use } = await connected(t, 20)
    await use()
    const { recorder } = send()
    await peer.until('\r\n\r\n')
    await new Promise(resolve => setTimeout(resolve, 40))
    t.ok(connection.isOpen)
    peer.write(OK)
    await recorder.done
    t.equal(await peer.untilEnd(), '')
    t.same(owned.slice(0, 2), ['given', 'given'])
  },
)

t.test(
  '2xx to CONNECT hands the connection over, whatever its fields say; no other response does (RFC 9110 §9.3.6)',
  async t => {
    for (const [answer, told] of [
      ['HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nok', 'upgraded 200'],
      ['HTTP/1.1 407 X\r\nContent-Length: 2\r\n\r\nno', 'ended'],
      ['HTTP/1.1 101 X\r\n\r\n', 'failed never'],
    ] as const) {
      const { peer, send, socket } = await connected(t)
      const { recorder } = send({ method: 'CONNECT', path: 'b.test:443', host: 'b.test:443' })
      t.equal(await peer.until('\r\n\r\n'), 'CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n')
      peer.write(answer)
      await recorder.done
      t.equal(recorder.told.at(-1), told)
      if (told.startsWith('upgraded')) t.equal(recorder.rest, 'ok')
      socket.destroy()
    }
  },
)

t.test('no event follows for a cancelled request, and its connection is closed', async t => {
  const moments = [
    'at once',
    'while content is sent',
    'in an interim response',
    'with the head',
    'in the content',
  ]
  for (const when of moments) {
    const { peer, owned, send } = await connected(t)
    const content = new GivenContent(10)
    const { recorder, cancel } = send({ method: 'PUT', content })
    recorder.onTold = line => {
      if (when === 'in an interim response' && line.startsWith('interim')) cancel()
      if (when === 'with the head' && line.startsWith('responded')) cancel()
      if (when === 'in the content' && line.startsWith('data')) cancel()
    }
    if (when === 'at once') cancel()
    else {
      await peer.until('\r\n\r\n')
      content.give('hel')
      await peer.until('hel')
      if (when === 'while content is sent') cancel()
      else peer.write(`HTTP/1.1 103 E\r\n\r\n${OK}`)
    }
    await peer.untilEnd()
    const told = recorder.told.length
    content.give('lo')
    cancel()
    await turns()
    t.equal(recorder.told.length, told, when)
    t.notMatch(recorder.told, /ended|failed/)
    t.same(owned, ['removed'])
  }
})

t.test('cancelling a request that is complete does not close the connection', async t => {
  const { peer, owned, send } = await connected(t)
  const first = send()
  await peer.until('\r\n\r\n')
  peer.write(OK)
  await first.recorder.done
  first.cancel()
  const second = send()
  first.cancel()
  await peer.until('\r\n\r\n')
  peer.write(OK)
  await second.recorder.done
  t.equal(second.recorder.told.at(-1), 'ended')
  t.same(owned, ['given', 'given'])
})

t.test('the receiver of an earlier response cannot pause the next one', async t => {
  const { peer, send } = await connected(t)
  const first = send()
  await peer.until('\r\n\r\n')
  peer.write(OK)
  await first.recorder.done
  const second = send()
  first.recorder.flow?.pause()
  await peer.until('\r\n\r\n')
  peer.write(OK)
  await second.recorder.done
  t.equal(second.recorder.content, 'ok')
})

t.test('closing a connection fails its request, which may not be sent again', async t => {
  const { connection, send, use, peer } = await connected(t)
  await use()
  const { recorder } = send()
  connection.close()
  t.match(recorder.failures, [{ retry: 'never', error: { type: 'connection_terminated' } }])
  await peer.untilEnd()
})

t.test('a request that cannot be written fails without an exception', async t => {
  const { peer, send } = await connected(t)
  const { recorder } = send({ path: '/ ' })
  t.match(recorder.failures, [{ error: { type: 'proxy_internal_error', status: 500 }, retry: 'never' }])
  t.equal(await peer.untilEnd(), '')
})

t.test('a socket that has already been destroyed fails the request', async t => {
  const { send, use, socket } = await connected(t)
  await use()
  socket.destroy()
  const { recorder } = send()
  t.match(recorder.failures, [{ retry: 'never', error: { type: 'connection_terminated' } }])
})

t.test('a series of requests leaves no listener behind', async t => {
  const { peer, send, use, socket } = await connected(t)
  await use()
  const count = () => socket.eventNames().reduce((sum, name) => sum + socket.listenerCount(name), 0)
  const before = count()
  for (let i = 0; i < 20; i++) {
    const { recorder } = send({ method: 'POST', content: new GivenContent(1, 'x') })
    await peer.until('\r\n\r\nx')
    peer.write(OK)
    await recorder.done
  }
  t.equal(count(), before)
})
