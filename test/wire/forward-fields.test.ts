/** The header section of forwarded messages, as bytes, in both directions. */
import t from 'tap'
import { DATE } from '../kit/proxies/refusal.js'
import { forwarded, get } from '../kit/proxies/setups.js'

/** The parts of the head before and after the received fields. */
function sentHead(authority: string, fields: string): string {
  return `GET / HTTP/1.1\r\nHost: ${authority}\r\n${fields}Connection: keep-alive\r\n\r\n`
}

const VIA = 'Via: 1.1 sluice-test\r\n'

t.test('fields', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  t.equal(await peer.until('\r\n\r\n'), sentHead(origin.authority, VIA))
  peer.write('HTTP/1.1 204 No Content\r\n\r\n')
  await client.until('\r\n\r\n')

  /** The fields that the origin receives for these request fields. */
  const upward = async (fields: string): Promise<string> => {
    client.write(get(origin, fields))
    const head = await peer.until('\r\n\r\n')
    peer.write('HTTP/1.1 204 No Content\r\n\r\n')
    await client.until('\r\n\r\n')
    return head
  }
  /** The fields that the client receives for these response fields. */
  const downward = async (fields: string, status = '200 OK'): Promise<string> => {
    client.write(get(origin))
    await peer.until('\r\n\r\n')
    peer.write(`HTTP/1.1 ${status}\r\n${fields}Content-Length: 0\r\n\r\n`)
    return client.until('\r\n\r\n')
  }
  const answer = (fields: string) => `HTTP/1.1 200 OK\r\n${fields}${VIA}Content-Length: 0\r\n\r\n`

  await t.test('order, case and repeats of request fields are kept (RFC 9110 §5.3)', async t => {
    const fields =
      'x-b: 2\r\nX-A: 1\r\nx-B: 3\r\nACCEPT: a, b\r\nAccept:\r\nCookie: a=b\r\nCookie: c=d\r\nUser-Agent: x  y\r\n'
    const sent = await upward(fields)
    t.equal(sent, sentHead(origin.authority, fields.replace('Accept:', 'Accept: ') + VIA))
  })

  await t.test('order, case and repeats of response fields are kept (RFC 9110 §5.3)', async t => {
    const fields = 'x-b: 2\r\nX-A: 1\r\nDATE: x\r\nSet-Cookie: a\r\nx-B: 3\r\nset-cookie: b\r\nServer: c\r\n'
    t.equal(await downward(fields), answer(fields))
  })

  await t.test('bytes above 0x7f pass both ways (RFC 9110 §5.5)', async t => {
    let obs = ''
    for (let byte = 0x80; byte <= 0xff; byte++) obs += String.fromCharCode(byte)
    const fields = `X: ${obs}\r\nY: a\tb\r\n`
    t.equal(await upward(fields), sentHead(origin.authority, fields + VIA))
    t.equal(await downward(`${fields}Date: x\r\n`), answer(`${fields}Date: x\r\n`))
  })

  await t.test('strips the fields that Connection names, in requests (RFC 9110 §7.6.1)', async t => {
    const sent = await upward(
      'X-A: 1\r\nConnection: x-a, X-C\r\nX-B: 2\r\nx-c: 3\r\nconnection: x-D\r\nX-D: 4\r\n',
    )
    t.equal(sent, sentHead(origin.authority, `X-B: 2\r\n${VIA}`))
  })

  await t.test('strips the fields that Connection names, in responses (RFC 9110 §7.6.1)', async t => {
    const fields = 'Date: x\r\nX-A: 1\r\nConnection: x-a, keep-alive\r\nX-B: 2\r\n'
    t.equal(await downward(fields), answer('Date: x\r\nX-B: 2\r\n'))
  })

  await t.test('strips what is hop-by-hop by definition, both ways (RFC 9110 §7.6.1)', async t => {
    const up =
      'Keep-Alive: 1\r\nTE: trailers\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n'
    t.equal(await upward(`A: 1\r\n${up}B: 2\r\n`), sentHead(origin.authority, `A: 1\r\nB: 2\r\n${VIA}`))
    const down =
      'Keep-Alive: timeout=60\r\nProxy-Connection: a\r\nTE: a\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n'
    t.equal(await downward(`Date: x\r\n${down}B: 2\r\n`), answer('Date: x\r\nB: 2\r\n'))
  })

  await t.test('what a message is made of stays, whatever Connection says (RFC 9110 §7.6.1)', async t => {
    const named =
      'Connection: host, content-type, authorization, cookie, cache-control, via, max-forwards, content-encoding'
    const kept = 'Content-Type: a\r\nAuthorization: b\r\nCookie: c\r\nCache-Control: d\r\nMax-Forwards: 3\r\n'
    const sent = await upward(`${named}\r\n${kept}Content-Encoding: e\r\nVia: 1.0 f\r\n`)
    const fields = `${kept}Content-Encoding: e\r\nVia: 1.0 f\r\n${VIA}`
    t.equal(sent, sentHead(origin.authority, fields))
    const down = 'Connection: date, set-cookie, content-type, content-length\r\nDate: x\r\nSet-Cookie: a\r\n'
    t.equal(
      await downward(`${down}Content-Type: b\r\n`),
      answer('Date: x\r\nSet-Cookie: a\r\nContent-Type: b\r\n'),
    )
  })

  await t.test('credentials for the proxy never leave it (RFC 9110 §11.7.2)', async t => {
    const sent = await upward(
      'Proxy-Authorization: Basic eDp5\r\nPROXY-authorization: z\r\nAuthorization: Basic YTpi\r\n',
    )
    t.equal(sent, sentHead(origin.authority, `Authorization: Basic YTpi\r\n${VIA}`))
    const fields =
      'Date: x\r\nProxy-Authenticate: Basic\r\nProxy-Authentication-Info: a\r\nWWW-Authenticate: Basic\r\n'
    t.equal(await downward(fields), answer('Date: x\r\nWWW-Authenticate: Basic\r\n'))
  })

  await t.test('Via is added behind those of other hops, both ways (RFC 9110 §7.6.3)', async t => {
    const sent = await upward('Via: 1.0 a, 1.1 b (c)\r\nX: y\r\n')
    t.equal(sent, sentHead(origin.authority, `Via: 1.0 a, 1.1 b (c)\r\nX: y\r\n${VIA}`))
    t.equal(await downward('Via: 1.1 a\r\nDate: x\r\n'), answer('Via: 1.1 a\r\nDate: x\r\n'))
  })

  await t.test('Date is added where it is missing, and only there (RFC 9110 §6.6.1)', async t => {
    t.equal(await downward('A: 1\r\n'), answer(`A: 1\r\nDate: ${DATE}\r\n`))
    t.equal(await downward('date: x\r\nA: 1\r\n'), answer('date: x\r\nA: 1\r\n'))
  })

  await t.test(
    'the reason phrase is passed on, and replaced where it holds other bytes than ASCII',
    async t => {
      t.match(await downward('', '200 All is  well'), /^HTTP\/1\.1 200 All is {2}well\r\n/)
      t.match(await downward('', '404 '), /^HTTP\/1\.1 404 \r\n/)
      t.match(await downward('', '404'), /^HTTP\/1\.1 404 \r\n/)
      t.match(await downward('', '404 n\xe9ant'), /^HTTP\/1\.1 404 Not Found\r\n/)
      t.match(await downward('', '404 a\0b'), /^HTTP\/1\.1 404 Not Found\r\n/)
      t.match(await downward('', '404 a\x1b[31m'), /^HTTP\/1\.1 404 Not Found\r\n/)
      t.match(await downward('', '299 \xe9'), /^HTTP\/1\.1 299 \r\n/)
    },
  )

  await t.test('every status code that has three digits passes (RFC 9110 §15)', async t => {
    for (const status of [
      200, 201, 203, 205, 226, 299, 300, 302, 399, 400, 418, 451, 499, 500, 511, 599, 600, 999,
    ]) {
      t.match(await downward('', `${status} x`), `HTTP/1.1 ${status} x\r\n`)
    }
  })

  await t.test('a response may have very many fields, none is lost', async t => {
    const fields = `Date: x\r\n${'X: a\r\n'.repeat(1500)}Y: z\r\n`
    t.equal(await downward(fields), answer(fields))
  })

  t.equal(origin.accepted, 1, 'all on one connection')
  t.notMatch(proxy.events, [{ error: /./ }])
})

t.test('a request that has already passed this proxy is answered 508 (RFC 9110 §7.6.3)', async t => {
  const { origin, proxy, client } = await forwarded(t)
  for (const via of ['1.1 sluice-test', '1.0 a, 1.1 sluice-test (x), 1.1 b', 'HTTP/1.1 sluice-test']) {
    client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nVia: ${via}\r\n\r\n`)
    const head = await client.until('\r\n\r\n')
    t.match(head, /^HTTP\/1\.1 508 Sluice: forwarding loop\r\n/)
    t.match(head, 'Proxy-Status: sluice;error=proxy_loop_detected')
    await client.until(Number(/Content-Length: (\d+)/.exec(head)?.[1]))
  }
  for (const via of [
    '1.1 sluice',
    '1.1 sluice-test2',
    '1.1 x-sluice-test',
    '1.1 a (sluice-test)',
    'sluice-test a',
  ]) {
    client.write(
      `GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nVia: ${via}\r\nContent-Length: 0\r\n\r\n`,
    )
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
    peer.end()
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 204 /, via)
  }
  t.match(await proxy.event('close'), { status: 508, error: 'proxy_loop_detected', reason: 'loop' })
})

t.test('the name in Via is the configured one', async t => {
  const { LOOPBACK_RULES } = await import('../kit/proxies/test-proxy.js')
  const { origin, client } = await forwarded(t, `${LOOPBACK_RULES}via: egress-1\n`)
  client.write(`GET http://${origin.authority}/ HTTP/1.0\r\n\r\n`)
  const peer = await origin.accept()
  t.match(await peer.until('\r\n\r\n'), '\r\nVia: 1.0 egress-1\r\n')
  peer.write('HTTP/1.0 204 No Content\r\n\r\n')
  t.match(await client.untilEnd(), '\r\nVia: 1.0 egress-1\r\n')
})
