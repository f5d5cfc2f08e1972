/** Interim responses, requested with Expect and unrequested (RFC 9110 §10.1.1, §15.2). */
import t from 'tap'
import { DATE } from '../kit/proxies/refusal.js'
import { forwarded, get } from '../kit/proxies/setups.js'
import { OK } from '../kit/peers/responses.js'

const VIA = 'Via: 1.1 sluice-test\r\n'
const TAIL = `Date: ${DATE}\r\n${VIA}`
const OK_SEEN = `HTTP/1.1 200 OK\r\n${TAIL}Content-Length: 2\r\n\r\nok`

t.test('interim responses are forwarded, in order and repeated (RFC 9110 §15.2)', async t => {
  const { origin, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(
    'HTTP/1.1 103 Early Hints\r\nLink: a\r\nlink: \xfe\r\nKeep-Alive: 1\r\nConnection: x\r\nX: y\r\n\r\n',
  )
  t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 103 Early Hints\r\nLink: a\r\nlink: \xfe\r\n${VIA}\r\n`)
  peer.write('HTTP/1.1 102 \r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: b\r\n\r\nHTTP/1.1 199 \xe9\r\n\r\n')
  t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 102 \r\n${VIA}\r\n`)
  t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 103 Early Hints\r\nLink: b\r\n${VIA}\r\n`)
  t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 199 \r\n${VIA}\r\n`)
  peer.write(OK)
  t.equal(await client.until('ok'), OK_SEEN)
})

t.test('HTTP/1.0 clients receive none (RFC 9110 §15.2)', async t => {
  const { origin, client } = await forwarded(t)
  client.write(get(origin).replace('HTTP/1.1', 'HTTP/1.0'))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n${OK}`)
  t.equal(
    await client.untilEnd(),
    `HTTP/1.1 200 OK\r\n${TAIL}Content-Length: 2\r\nConnection: close\r\n\r\nok`,
  )
})

t.test('an unrequested 100 is forwarded too (RFC 9110 §15.2.1)', async t => {
  const { origin, client } = await forwarded(t)
  for (let i = 0; i < 3; i++) {
    client.write(get(origin))
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(`HTTP/1.1 100 Continue\r\n\r\n`)
    t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 100 Continue\r\n${VIA}\r\n`)
    peer.write(OK.replace('\r\n', '\r\nConnection: close\r\n'))
    peer.end()
    t.equal(await client.until('ok'), OK_SEEN)
  }
  t.equal(origin.accepted, 3)
})

t.test('too many interim responses are 502', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100))
  for (let i = 0; i < 100; i++) await client.until(`HTTP/1.1 103 Early Hints\r\n${VIA}\r\n`)
  peer.write(`HTTP/1.1 103 Early Hints\r\n\r\n${OK}`)
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 Sluice: too many interim responses\r\n/)
  await peer.untilEnd()
  t.match(await proxy.event('close'), { status: 502, error: 'http_protocol_error' })
})

t.test('a 100 after another interim response is forwarded too', async t => {
  const { origin, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${OK}`)
  t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 103 Early Hints\r\n${VIA}\r\n`)
  t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 100 Continue\r\n${VIA}\r\n`)
  t.equal(await client.until('ok'), OK_SEEN)
  t.equal(origin.accepted, 1)
  t.equal(origin.accepted, 1)
})

t.test(
  'a POST without content is sent once, with or without an unrequested 100 (RFC 9110 §9.2.2)',
  async t => {
    const { origin, client } = await forwarded(t)
    client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(`HTTP/1.1 100 Continue\r\n\r\n${OK}`)
    t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 100 Continue\r\n${VIA}\r\n`)
    t.equal(await client.until('ok'), OK_SEEN)
    t.equal(origin.accepted, 1)
  },
)

t.test('Expect: 100-continue (RFC 9110 §10.1.1)', async t => {
  for (const [framing, content] of [
    ['Content-Length: 5\r\n', 'hello'],
    ['Transfer-Encoding: chunked\r\n', '5\r\nhello\r\n0\r\n\r\n'],
  ] as const) {
    await t.test(`the head arrives before any content, which waits for 100; ${framing.trim()}`, async t => {
      const { origin, proxy, client } = await forwarded(t)
      client.write(
        `PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nX: \xe9\r\nExpect: 100-Continue\r\n${framing}\r\n`,
      )
      const peer = await origin.accept()
      t.equal(
        await peer.until('\r\n\r\n'),
        `PUT / HTTP/1.1\r\nHost: ${origin.authority}\r\nX: \xe9\r\nVia: 1.1 sluice-test\r\n${framing}` +
          'Expect: 100-continue\r\nConnection: keep-alive\r\n\r\n',
      )
      t.equal(peer.received, '')
      peer.write('HTTP/1.1 100 Continue\r\n\r\n')
      t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 100 Continue\r\n${VIA}\r\n`)
      client.write(content)
      t.equal(await peer.until(content), content)
      peer.write(OK)
      t.equal(await client.until('ok'), OK_SEEN)
      t.match(await proxy.event('close'), { status: 200, bytes_up: 5, close_reason: 'complete' })
    })
  }

  for (const status of ['417 Expectation Failed', '413 Content Too Large', '401 Unauthorized', '200 OK']) {
    await t.test(
      `${status} in place of 100 is passed on, and the connection closes (RFC 9112 §9.3)`,
      async t => {
        const { origin, proxy, client } = await forwarded(t)
        client.write(
          `PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
        )
        const peer = await origin.accept()
        await peer.until('\r\n\r\n')
        peer.write(`HTTP/1.1 ${status}\r\nContent-Length: 2\r\n\r\nno`)
        const close = status === '200 OK' ? '' : 'Connection: close\r\n'
        t.equal(await client.untilEnd(), `HTTP/1.1 ${status}\r\n${TAIL}Content-Length: 2\r\n${close}\r\nno`)
        await peer.untilEnd()
        t.match(await proxy.event('close'), {
          status: Number(status.slice(0, 3)),
          bytes_up: 0,
          bytes_down: 2,
        })
      },
    )
  }

  await t.test('content that does not wait is passed on all the same', async t => {
    const { origin, client } = await forwarded(t)
    client.write(
      `PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
    )
    const peer = await origin.accept()
    t.match(await peer.until('hello'), 'Expect: 100-continue\r\n')
    peer.write(OK)
    t.equal(await client.until('ok'), OK_SEEN)
  })

  await t.test('it is passed on without content too', async t => {
    const { origin, client } = await forwarded(t)
    client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n`)
    const peer = await origin.accept()
    t.match(await peer.until('\r\n\r\n'), 'Expect: 100-continue\r\n')
    peer.write(OK)
    t.equal(await client.until('ok'), OK_SEEN)
  })

  await t.test('in HTTP/1.0 it means nothing and is left out', async t => {
    const { origin, client } = await forwarded(t)
    client.write(
      `PUT http://${origin.authority}/ HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
    )
    const peer = await origin.accept()
    t.notMatch(await peer.until('hello'), /expect/i)
    peer.write(`HTTP/1.1 100 Continue\r\n\r\n${OK}`)
    t.equal(
      await client.untilEnd(),
      `HTTP/1.1 200 OK\r\n${TAIL}Content-Length: 2\r\nConnection: close\r\n\r\nok`,
    )
  })

  await t.test('any other expectation is 417 (RFC 9110 §10.1.1)', async t => {
    const { origin, client } = await forwarded(t)
    client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n`)
    t.match(await client.untilEnd(), /^HTTP\/1\.1 417 Sluice: /)
    t.equal(origin.accepted, 0)
  })
})
