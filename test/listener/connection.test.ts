import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import type { ResponseContent } from '../../src/exchange.js'
import { handleEvents, SocketHandler } from '../../src/net/socket-handler.js'
import {
  answerWith,
  LIMITS,
  type ServedConnection,
  servedConnection,
} from '../kit/proxies/served-connection.js'
import { until } from '../kit/until.js'

const GET = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'
const MIB = 1 << 20
/**
 * The limit, the read that exceeds it, and what the paused stream reads: a client that does not fill it, and one that
 * does.
 */
const MOST_READ = 4 * 64 * 1024
const LINGER_MS = 5000
const LINGER_BYTES = 16 * 1024 * 1024
const CLOSING = 'GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'

t.test(
  'reads a limited number of bytes after an unanswered request, and continues after the response',
  async t => {
    const served = await servedConnection(t, exchange => {
      if (served.exchanges.length > 1) answerWith(1)(exchange)
    })
    const { client, socket } = served
    client.write(GET)
    // More than the buffers of both sockets can hold, in complete requests.
    const request = Buffer.from(`GET / HTTP/1.1\r\nHost: h\r\nX: ${'x'.repeat(MIB / 2)}\r\n\r\n`)
    const count = 128
    for (let i = 0; i < count; i++) client.write(request)
    await until('the client to be paused', () => socket.isPaused())
    const read = await untilStable(() => socket.bytesRead)
    t.ok(read <= GET.length + MOST_READ, `${read} bytes read`)
    t.ok(socket.isPaused())
    t.ok(client.socket.writableLength > 0, 'the client cannot write on')
    t.equal(served.exchanges.length, 1)
    const [first] = served.exchanges
    if (first !== undefined) answerWith(1)(first)
    for (let i = 0; i <= count; i++) t.equal((await readResponse(client)).body, 'x')
    t.equal(served.exchanges.length, count + 1)
  },
)

t.test('after its FIN the client is gone, before its socket is closed (RFC 9110 §7.8)', async t => {
  const served = await servedConnection(t, () => {})
  const { client, socket } = served
  let aborted: unknown
  const ended = new Promise<void>(resolve => {
    socket.on('end', () => {
      aborted = served.exchanges[0]?.aborted
      resolve()
    })
  })
  client.write('CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\nhello')
  client.end()
  await ended
  t.same(aborted, { kind: 'gone', closeReason: 'client_gone' })
})

t.test('the limit also applies after a request whose content was read', async t => {
  let ended = false
  const served = await servedConnection(t, exchange => {
    exchange.content.start({
      data: () => true,
      end: () => {
        ended = true
      },
    })
  })
  const { client, socket } = served
  client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n1234')
  await until('the content to be read', () => ended)
  const before = socket.bytesRead
  for (let i = 0; i < 64; i++) client.write(Buffer.alloc(MIB, 'x'))
  await until('the client to be paused', () => socket.isPaused())
  const read = await untilStable(() => socket.bytesRead - before)
  t.ok(read <= MOST_READ, `${read} bytes read`)
})

t.test(
  'reads no further request while the client does not read responses, and continues when it does',
  async t => {
    const size = 64 * 1024
    const served = await servedConnection(t, answerWith(size))
    const { client, socket } = served
    client.socket.pause()
    const count = 1000
    client.write(GET.repeat(count))
    const answered = await untilStable(() => served.exchanges.length)
    t.ok(answered < count / 2, `${answered} answered`)
    t.ok(socket.writableLength < 4 * size, `${socket.writableLength} bytes wait`)
    client.socket.resume()
    for (let i = 0; i < count; i++) {
      const { body } = await readResponse(client)
      if (body.length !== size) t.equal(body.length, size)
    }
    t.equal(served.exchanges.length, count)
  },
)

t.test('closes the connection of a client that reads nothing of its responses', async t => {
  const served = await servedConnection(t, answerWith(MIB))
  served.client.socket.pause()
  served.client.write(GET.repeat(100))
  await served.arrived()
  await untilStable(() => served.exchanges.length)
  served.pass(LIMITS.bodyIdleMs - 1)
  t.notOk(served.socket.destroyed)
  served.pass(1)
  t.ok(served.socket.destroyed)
})

t.test('a slow request head is 408 (RFC 9110 §15.5.9)', async t => {
  const served = await servedConnection(t)
  served.client.write('GET /slow HTTP/1.1\r\nHo')
  await served.arrived()
  served.pass(LIMITS.headerTimeoutMs - 1)
  await turns()
  t.equal(served.client.received, '')
  served.pass(1)
  const response = await readResponse(served.client)
  t.equal(response.status, 408)
  t.equal(response.fields['connection'], 'close')
  t.match(response.reason, /^Sluice: request head not received in time$/)
  t.equal(await served.client.untilEnd(), '')
  t.match(served.refusals, [['GET', '/slow', { status: 408, reason: 'request_timeout' }]])
})

t.test('single bytes do not extend the time for a head', async t => {
  const served = await servedConnection(t)
  for (const byte of 'GET / HT') {
    served.client.write(byte)
    await served.arrived()
    served.pass(LIMITS.headerTimeoutMs / 8)
  }
  t.equal((await readResponse(served.client)).status, 408)
})

t.test('the time for a later head begins with its first byte', async t => {
  const served = await servedConnection(t, answerWith(1))
  served.client.write(GET)
  await readResponse(served.client)
  served.pass(LIMITS.keepaliveIdleMs - 1)
  served.client.write('G')
  await served.arrived()
  served.pass(LIMITS.headerTimeoutMs - 1)
  await turns()
  t.equal(served.client.received, '')
  served.pass(1)
  t.equal((await readResponse(served.client)).status, 408)
})

t.test('a new connection that sends nothing is closed silently (RFC 9112 §9.5)', async t => {
  for (const bytes of ['', '\r\n']) {
    const served = await servedConnection(t)
    served.client.write(bytes)
    await served.arrived()
    served.pass(LIMITS.headerTimeoutMs - 1)
    t.notOk(served.socket.destroyed)
    served.pass(1)
    t.equal(await served.client.untilEnd(), '')
    t.equal(await served.client.outcome(), 'end')
    t.ok(served.isReleased)
    t.same(served.refusals, [])
  }
})

t.test('an idle connection is closed silently (RFC 9112 §9.5)', async t => {
  const served = await servedConnection(t, answerWith(1))
  served.client.write(GET)
  await readResponse(served.client)
  served.pass(LIMITS.keepaliveIdleMs - 1)
  t.notOk(served.socket.writableEnded)
  served.pass(1)
  t.equal(await served.client.untilEnd(), '')
  t.equal(await served.client.outcome(), 'end')
  served.client.end()
  await served.client.closed()
})

t.test('request content that stops arriving is 408', async t => {
  let received = ''
  const served = await servedConnection(t, exchange => {
    exchange.content.start({
      data: chunk => {
        received += chunk.toString()
        return true
      },
      end: () => {},
    })
    exchange.onAborted(() => {
      if (exchange.aborted?.kind === 'failed') exchange.refuse(exchange.aborted.error)
    })
  })
  served.client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12')
  await served.arrived()
  served.pass(LIMITS.bodyIdleMs - 1)
  served.client.write('34')
  await served.arrived()
  t.equal(received, '1234')
  served.pass(LIMITS.bodyIdleMs - 1)
  await turns()
  t.equal(served.client.received, '', 'each piece starts the time again')
  served.pass(1)
  const response = await readResponse(served.client)
  t.equal(response.status, 408)
  t.match(response.reason, /request content not received in time$/)
  t.equal(await served.client.untilEnd(), '')
})

t.test('request content that arrives too slowly is 408 (RFC 9110 §15.5.9)', async t => {
  const served = await servedConnection(t, exchange => {
    exchange.content.start({ data: () => true, end: () => {} })
  })
  served.client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n')
  await served.arrived()
  served.pass(0)
  const [exchange] = served.exchanges
  // Two periods of 30 seconds, in each of which content arrives twice.
  for (const bytes of [15 * 1024, 15 * 1024, 15 * 1024, 15 * 1024 - 1]) {
    t.equal(exchange?.aborted, undefined)
    served.client.write(Buffer.alloc(bytes))
    await served.arrived()
    served.pass(LIMITS.bodyIdleMs / 2)
  }
  t.match(exchange?.aborted, {
    kind: 'failed',
    error: {
      status: 408,
      reason: 'body_min_rate',
      close: true,
      detail: /limits\.body_min_rate allows \(1KiB a second/,
    },
  })
})

t.test('the time for content does not run while no content is wanted', async t => {
  const served = await servedConnection(t, exchange => {
    exchange.content.start({ data: () => false, end: () => answerWith(1)(exchange) })
  })
  served.client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n12')
  await served.arrived()
  served.pass(10 * LIMITS.bodyIdleMs)
  served.exchanges[0]?.content.resume()
  served.client.write('34')
  await served.arrived()
  served.exchanges[0]?.content.resume()
  t.equal((await readResponse(served.client)).status, 200)
})

t.test('the time for content continues after the client has caught up with the response', async t => {
  let drained = false
  const served = await servedConnection(t, exchange => {
    const data = (): boolean => {
      setImmediate(() => {
        const content = exchange.respond({ status: 200, reason: 'OK', fields: [] })
        t.notOk(content.write(Buffer.alloc(16 * MIB)))
        content.onDrain(() => {
          drained = true
        })
      })
      return true
    }
    exchange.content.start({ data, end: () => {} })
  })
  served.client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n12')
  await until('the content to be taken', () => drained)
  served.pass(LIMITS.bodyIdleMs)
  t.match(served.exchanges[0]?.aborted, { kind: 'failed', error: { status: 408 } })
})

t.test('content that has ended is not waited for after the client has caught up', async t => {
  let drained = false
  const served = await servedConnection(t, exchange => {
    const end = (): void => {
      const content = exchange.respond({ status: 200, reason: 'OK', fields: [] })
      t.notOk(content.write(Buffer.alloc(16 * MIB)))
      content.onDrain(() => {
        drained = true
      })
    }
    exchange.content.start({ data: () => true, end })
  })
  served.client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n1234')
  await until('the content to be taken', () => drained)
  served.pass(10 * LIMITS.bodyIdleMs)
  t.equal(served.exchanges[0]?.aborted, undefined, 'a response may be quiet for as long as it likes')
})

t.test('a response in progress is never cut short in a way that looks complete (RFC 9112 §8)', async t => {
  for (const [name, cut] of [
    ['abort', (_, response) => response?.abort()],
    ['destroy', served => served.connection.destroy()],
    ['a client that takes nothing', served => served.pass(LIMITS.bodyIdleMs)],
  ] as const satisfies readonly [string, (served: ServedConnection, response?: ResponseContent) => void][]) {
    let response: ResponseContent | undefined
    const served = await servedConnection(t, exchange => {
      // For HTTP/1.0 only the end of the connection ends content of unknown length.
      response = exchange.respond({ status: 200, reason: 'OK', fields: [] })
      response.write(Buffer.alloc(16 * MIB))
    })
    const resets = t.capture(served.socket, 'resetAndDestroy', served.socket.resetAndDestroy)
    served.client.socket.pause()
    served.client.write('GET / HTTP/1.0\r\n\r\n')
    await served.arrived()
    await untilStable(() => served.socket.writableLength)
    cut(served, response)
    t.ok(served.socket.destroyed)
    t.equal(resets().length, 1, name)
  }
})

t.test('an HTTP/1.0 client that reads the end of its response slowly gets all of it', async t => {
  const bytes = 16 * MIB
  const served = await servedConnection(t, exchange => {
    const content = exchange.respond({ status: 200, reason: 'OK', fields: [] })
    content.write(Buffer.alloc(bytes))
    content.end()
  })
  served.client.socket.pause()
  served.client.write('GET / HTTP/1.0\r\n\r\n')
  await served.arrived()
  await untilStable(() => served.socket.writableLength)
  t.ok(served.socket.writableLength > 0)
  served.pass(LIMITS.bodyIdleMs - 1)
  t.notOk(served.socket.destroyed)
  served.client.socket.resume()
  const answer = await served.client.untilEnd()
  t.equal(answer.length - answer.indexOf('\r\n\r\n') - 4, bytes)
  t.equal(await served.client.outcome(), 'end')
})

t.test('in a drain an idle connection is closed, one in use after its response', async t => {
  const idle = await servedConnection(t)
  idle.drain()
  t.equal(await idle.client.untilEnd(), '')
  await untilStable(() => Number(idle.socket.destroyed))
  t.ok(idle.isReleased, 'without a wait for the client to end it, too')
  t.equal(await idle.client.outcome(), 'end')

  const busy = await servedConnection(t)
  busy.client.write(GET + GET)
  await busy.arrived()
  busy.drain()
  const [exchange] = busy.exchanges
  if (exchange !== undefined) answerWith(2)(exchange)
  const response = await readResponse(busy.client)
  t.equal(response.fields['connection'], 'close')
  t.equal(response.body, 'xx')
  t.equal(await busy.client.untilEnd(), '', 'the request behind it is not answered')
  t.notOk(busy.isReleased, 'and costs no answer')

  const inHead = await servedConnection(t, answerWith(1))
  inHead.client.write('GET / HTTP/1.1\r\n')
  await inHead.arrived()
  inHead.drain()
  inHead.client.write('Host: h\r\n\r\n')
  t.equal((await readResponse(inHead.client)).fields['connection'], 'close')
  t.equal(await inHead.client.untilEnd(), '')
})

t.test('an error before the content announces the end of the connection (RFC 9112 §9.6)', async t => {
  for (const [status, connection] of [
    [399, undefined],
    [400, 'close'],
    [599, 'close'],
  ] as const) {
    const served = await servedConnection(t, exchange => {
      exchange.respond({ status, reason: '', fields: [], contentLength: 0 }).end()
    })
    served.client.write('PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n')
    const response = await readResponse(served.client)
    t.same([response.status, response.fields['connection']], [status, connection])
    t.equal(await served.client.untilEnd(), '', 'as it does in any case')
    const whole = await servedConnection(t, exchange => {
      exchange.respond({ status, reason: '', fields: [], contentLength: 0 }).end()
    })
    whole.client.write(GET)
    t.equal((await readResponse(whole.client)).fields['connection'], undefined, 'not where there is none')
  }
})

t.test('after its last response a connection is read until the client closes it (RFC 9112 §9.6)', async t => {
  const served = await servedConnection(t, answerWith(5))
  served.client.write(CLOSING)
  await readResponse(served.client)
  t.equal(await served.client.untilEnd(), '', 'half-closed at once')
  served.client.write('more')
  await served.arrived()
  served.pass(LINGER_MS - 1)
  t.notOk(served.socket.destroyed)
  served.client.end()
  await served.client.closed()
  t.equal(await served.client.outcome(), 'end')
  t.ok(served.isReleased)
})

t.test('no request after the last response is served', async t => {
  const served = await servedConnection(t, answerWith(5))
  served.client.write(CLOSING + CLOSING)
  await readResponse(served.client)
  served.client.write(CLOSING)
  t.equal(await served.client.untilEnd(), '')
  await turns()
  t.equal(served.exchanges.length, 1)
})

t.test('the time in which the client has to close is limited (RFC 9112 §9.6)', async t => {
  const served = await servedConnection(t, answerWith(5))
  served.client.write(CLOSING)
  await served.client.untilEnd()
  for (let i = 0; i < 10; i++) {
    served.client.write('more')
    await served.arrived()
    t.notOk(served.socket.destroyed)
    served.pass(LINGER_MS / 10)
  }
  t.ok(served.socket.destroyed, 'whatever the client sends meanwhile')
})

t.test('that time begins when everything was sent to the client', async t => {
  const served = await servedConnection(t, answerWith(16 * 1024 * 1024))
  served.client.socket.pause()
  served.client.write(CLOSING)
  await served.arrived()
  await untilStable(() => served.socket.writableLength)
  t.ok(served.socket.writableLength > 0)
  served.pass(LIMITS.bodyIdleMs - 1)
  t.notOk(served.socket.destroyed)
  served.client.socket.resume()
  t.equal((await readResponse(served.client)).body.length, 16 * 1024 * 1024)
  await served.client.untilEnd()
  await turns()
  served.pass(LINGER_MS - 1)
  t.notOk(served.socket.destroyed)
  served.pass(1)
  t.ok(served.socket.destroyed)
})

t.test('the bytes that are read meanwhile are limited', async t => {
  const served = await servedConnection(t, answerWith(5))
  served.client.write(CLOSING)
  await served.client.untilEnd()
  const before = served.socket.bytesRead
  const piece = Buffer.alloc(1 << 16)
  for (let sent = 0; sent < LINGER_BYTES; sent += piece.length) served.client.write(piece)
  const read = () => served.socket.bytesRead - before
  await until('as much to be read', () => read() >= LINGER_BYTES, { seen: read })
  t.notOk(served.socket.destroyed, 'exactly as much passes')
  served.client.write('x')
  await until('the connection to be closed', () => served.socket.destroyed)
  t.equal(read(), LINGER_BYTES + 1)
})

t.test('content that is wanted after the last response does not extend that time', async t => {
  for (const ask of ['resume', 'start'] as const) {
    const consumer = { data: () => false, end: () => {} }
    const served = await servedConnection(t, exchange => exchange.content.start(consumer))
    served.client.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n12')
    await served.arrived()
    const [exchange] = served.exchanges
    if (exchange !== undefined) answerWith(1)(exchange)
    await served.client.untilEnd()
    await turns()
    if (ask === 'start') exchange?.content.start(consumer)
    else exchange?.content.resume()
    served.pass(LINGER_MS - 1)
    t.notOk(served.socket.destroyed)
    served.pass(1)
    t.ok(served.socket.destroyed, ask)
  }
})

t.test(
  'a connection that becomes a tunnel keeps its listeners and passes its events to the new owner',
  async t => {
    const events: string[] = []
    class Recorder extends SocketHandler {
      override onData(chunk: Buffer): void {
        events.push(`data ${chunk}`)
      }

      override onClose(): void {
        events.push('close')
      }
    }
    const NAMES = ['data', 'end', 'drain', 'error', 'close']
    const listeners = (): unknown => NAMES.map(name => served.socket.listeners(name))
    let before: unknown
    const served = await servedConnection(t, exchange => {
      before = listeners()
      const { socket, rest } = exchange.switchTo(200, 'OK', [])
      t.equal(`${rest}`, 'early')
      handleEvents(socket, new Recorder())
    })
    served.client.write('CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\nearly')
    await until('the switch', () => served.isReleased)
    t.same(listeners(), before)
    served.client.write('late')
    await until('what follows', () => events.length > 0)
    served.socket.destroy()
    await until('the end', () => events.length > 1)
    t.same(events, ['data late', 'close'])
  },
)
