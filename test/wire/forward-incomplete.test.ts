/** An origin or a client that closes early: nothing that is cut off ever looks complete (RFC 9112 §8). */
import t from 'tap'
import { forwarded, get } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES } from '../kit/proxies/test-proxy.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { OK_LINE } from '../kit/peers/responses.js'

const ENDS = ['end', 'reset'] as const

/** Heads and the beginning of their content, and how a complete response would end. */
const PARTS = [
  ['Content-Length', `${OK_LINE}Content-Length: 5\r\n\r\nhel`, undefined],
  ['chunked, within a chunk', `${OK_LINE}Transfer-Encoding: chunked\r\n\r\n5\r\nhel`, '0\r\n\r\n'],
  ['chunked, between chunks', `${OK_LINE}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n`, '0\r\n\r\n'],
  [
    'chunked, before the last line',
    `${OK_LINE}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n`,
    '0\r\n\r\n',
  ],
] as const

for (const end of ENDS) {
  for (const [what, part, whole] of PARTS) {
    t.test(`${what}, ${end} half-way (RFC 9112 §8)`, async t => {
      const { origin, proxy, client } = await forwarded(t)
      client.write(get(origin))
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(part)
      await client.until('hel')
      peer[end]()
      const rest = await client.untilEnd()
      t.equal(rest.includes('lo'), false)
      if (whole !== undefined) t.notMatch(rest, whole)
      t.match(await proxy.event('close'), {
        status: 200,
        close_reason: 'upstream_incomplete',
        bytes_down: 3,
      })
    })

    t.test(`${what}, ${end} half-way, toward HTTP/1.0`, async t => {
      const { origin, proxy, client } = await forwarded(t)
      client.write(get(origin).replace('HTTP/1.1', 'HTTP/1.0'))
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(part)
      await client.until('hel')
      peer[end]()
      // Only a reset tells a client that the end of the connection is not the end of the content.
      if (whole !== undefined) t.equal(await client.outcome(), 'reset')
      else t.equal(await client.untilEnd(), '')
      t.match(await proxy.event('close'), { status: 200, close_reason: 'upstream_incomplete' })
    })
  }

  t.test(`an origin that goes before its answer is 502, ${end} (RFC 9110 §15.6.3)`, async t => {
    const { origin, proxy, client } = await forwarded(t)
    const beginnings = [
      '',
      'H',
      'HTTP/1.1 200',
      OK_LINE,
      `${OK_LINE}Content-Length: 0\r\n`,
      'HTTP/1.1 103 E\r\n\r\n',
    ]
    for (const [i, beginning] of beginnings.entries()) {
      client.write(get(origin))
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      if (beginning !== '') peer.write(beginning)
      if (beginning.endsWith('\r\n\r\n')) t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 103 E\r\n/)
      peer[end]()
      const head = await client.until('\r\n\r\n')
      t.match(head, /^HTTP\/1\.1 502 Sluice: /, beginning)
      await client.until(Number(/Content-Length: (\d+)/.exec(head)?.[1]))
      const close = await proxy.event('close', i + 1)
      t.match(close, { status: 502, close_reason: 'failed', error: 'connection_terminated' })
    }
    t.equal(origin.accepted, beginnings.length, 'a fresh connection that dies is not tried again')
  })
}

for (const minor of [0, 1]) {
  t.test(`a reset is no end of content that ends with the connection, HTTP/1.${minor}`, async t => {
    for (const head of [OK_LINE, 'HTTP/1.0 200 OK\r\n', `${OK_LINE}Connection: close\r\n`]) {
      const { origin, proxy, client } = await forwarded(t)
      client.write(get(origin).replace('HTTP/1.1', `HTTP/1.${minor}`))
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(`${head}\r\nhel`)
      await client.until('hel')
      peer.reset()
      if (minor === 0) t.equal(await client.outcome(), 'reset')
      else t.notMatch(await client.untilEnd(), '0\r\n\r\n')
      t.match(await proxy.event('close'), { status: 200, close_reason: 'upstream_incomplete' })
    }
  })
}

t.test('a client that disconnects ends its request', async t => {
  for (const when of ['before the answer', 'in the middle of it']) {
    for (const end of ENDS) {
      const { origin, proxy, client } = await forwarded(t)
      client.write(get(origin))
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      if (when !== 'before the answer') {
        peer.write(`${OK_LINE}Content-Length: 5\r\n\r\nhel`)
        await client.until('hel')
      }
      client[end]()
      t.equal(await peer.untilEnd(), '', `${when}, ${end}`)
      const status = when === 'before the answer' ? 0 : 200
      t.match(await proxy.event('close'), { status, close_reason: 'client_gone' })
    }
  }
})

t.test('a client that disconnects within its content ends the request', async t => {
  for (const framing of ['Content-Length: 5\r\n\r\nhel', 'Transfer-Encoding: chunked\r\n\r\n5\r\nhel']) {
    for (const end of ENDS) {
      const { origin, proxy, client } = await forwarded(t)
      client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${framing}`)
      const peer = await origin.accept()
      await peer.until('hel')
      client[end]()
      t.notMatch(await peer.untilEnd(), '0\r\n\r\n')
      t.match(await proxy.event('close'), { status: 0, close_reason: 'client_gone', bytes_up: 3 })
    }
  }
})

t.test('content that becomes malformed is 400, and never complete for the origin (RFC 9112 §8)', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(
    `POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n`,
  )
  const peer = await origin.accept()
  await peer.until('hel\r\n')
  client.write('zz\r\n')
  t.equal(await peer.untilEnd(), '')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 400 Sluice: bad chunk size\r\n/)
  t.match(await proxy.event('close'), { status: 400, close_reason: 'failed' })
})

t.test('an origin that closes while content is sent is 502', async t => {
  for (const end of ENDS) {
    const { origin, proxy, client } = await forwarded(t)
    client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel`)
    const peer = await origin.accept()
    await peer.until('hel')
    peer[end]()
    t.match(await client.untilEnd(), /^HTTP\/1\.1 502 Sluice: /)
    t.match(await proxy.event('close'), {
      status: 502,
      close_reason: 'failed',
      error: 'connection_terminated',
    })
  }
})

t.test(
  'a response before the end of the content reaches a client that is still sending (RFC 9112 §9.3)',
  async t => {
    const { origin, proxy, client } = await forwarded(t)
    client.write(
      `PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nhel`,
    )
    const peer = await origin.accept()
    await peer.until('hel')
    peer.write('HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno')
    client.write(Buffer.alloc(1_000_000))
    t.match(
      await client.untilEnd(),
      /^HTTP\/1\.1 413 Content Too Large\r\n[\s\S]*\r\nConnection: close\r\n\r\nno$/,
    )
    client.write(Buffer.alloc(1_000_000))
    await peer.untilEnd()
    t.match(await proxy.event('close'), { status: 413, close_reason: 'complete', bytes_down: 2 })
  },
)

t.test('a response is read before the reset that follows it (RFC 9112 §9.6)', async t => {
  for (const [what, leave] of [
    ['closed at once', (peer: RawPeer) => peer.destroy()],
    ['closed behind the answer', (peer: RawPeer) => peer.socket.destroySoon()],
  ] as const) {
    const { origin, client } = await forwarded(t)
    client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    // Unread content makes the system reset the connection when it is closed.
    peer.socket.pause()
    await new Promise<void>(resolve => client.socket.write(Buffer.alloc(1_000_000), () => resolve()))
    client.write(Buffer.alloc(20_000_000))
    peer.write('HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno')
    leave(peer)
    t.match(await client.untilEnd(), /^HTTP\/1\.1 413 [\s\S]*no$/, what)
  }
})

t.test('a response that begins before the end of the content may end after it', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(
    `POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n`,
  )
  const peer = await origin.accept()
  await peer.until('a\r\n')
  peer.write(`${OK_LINE}Transfer-Encoding: chunked\r\n\r\n1\r\nA\r\n`)
  await client.until('A\r\n')
  client.write('1\r\nb\r\n')
  await peer.until('1\r\nb\r\n')
  peer.write('1\r\nB\r\n')
  await client.until('1\r\nB\r\n')
  client.write('0\r\n\r\n')
  await peer.until('0\r\n\r\n')
  peer.write('0\r\n\r\n')
  t.equal(await client.until('0\r\n\r\n'), '0\r\n\r\n')
  t.match(await proxy.event('close'), { status: 200, close_reason: 'complete', bytes_up: 2, bytes_down: 2 })
  client.write(get(origin))
  t.match(await peer.until('\r\n\r\n'), 'GET / ', 'both connections are kept')
})

/** limits.response_timeout, held. */
const RESPONSE_MS = 7777

t.test('response_timeout runs from the last byte of the request to the head', async t => {
  const timers = pauseTimers(t, RESPONSE_MS)
  const { origin, proxy, client } = await forwarded(
    t,
    `${LOOPBACK_RULES}limits: { response_timeout: ${RESPONSE_MS}ms }\n`,
  )
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 103 Early Hints\r\n\r\n')
  await client.until('\r\n\r\n')
  t.same([timers.set, timers.running], [1, 1], 'an interim response neither ends nor renews it')
  await timers.fire()
  const head = await client.until('\r\n\r\n')
  t.match(head, /^HTTP\/1\.1 504 Sluice: no response from upstream in time\r\n/)
  t.match(head, 'Proxy-Status: sluice;error=http_response_timeout')
  t.equal(await peer.untilEnd(), '')
  t.match(await proxy.event('close'), {
    status: 504,
    close_reason: 'failed',
    error: 'http_response_timeout',
    address: origin.authority,
  })
  await client.until(Number(/Content-Length: (\d+)/.exec(head)?.[1]))

  // The connection remains usable, and a response that has begun may pause.
  client.write(get(origin))
  const second = await origin.accept()
  await second.until('\r\n\r\n')
  second.write(`${OK_LINE}Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n`)
  await client.until('\r\n\r\n')
  t.same([timers.set, timers.running], [2, 0])
  second.write('6\r\ndata\n\n\r\n')
  await client.until('6\r\ndata\n\n\r\n')
  t.same([timers.set, timers.running], [2, 0])
  second.write('0\r\n\r\n')
  t.equal(await client.until('0\r\n\r\n'), '0\r\n\r\n')
})

t.test('response_timeout does not run while content is sent', async t => {
  const timers = pauseTimers(t, RESPONSE_MS)
  const { origin, proxy, client } = await forwarded(
    t,
    `${LOOPBACK_RULES}limits: { response_timeout: ${RESPONSE_MS}ms }\n`,
  )
  client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\na')
  t.equal(timers.set, 0)
  client.write('b')
  await peer.until('b')
  await timers.fire()
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 504 /)
  t.match(await proxy.event('close'), { status: 504, bytes_up: 2 })
})
