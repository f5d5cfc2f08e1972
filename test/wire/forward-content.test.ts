/** Content of forwarded messages: lengths, chunks, trailers, and responses without content. */

import type { Test } from 'tap'
import t from 'tap'
import { DATE } from '../kit/proxies/refusal.js'
import { forwarded, type Forwarded, get } from '../kit/proxies/setups.js'
import type { RawPeer } from '../kit/peers/raw-peer.js'

const TAIL = `Date: ${DATE}\r\nVia: 1.1 sluice-test\r\n`
const NO_CONTENT = 'HTTP/1.1 204 No Content\r\n\r\n'

/** Opens a connection to the origin with a first request, so that each later message is separate. */
async function opened(t: Test): Promise<Forwarded & { peer: RawPeer }> {
  const all = await forwarded(t)
  all.client.write(get(all.origin))
  const peer = await all.origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(NO_CONTENT)
  await all.client.until('\r\n\r\n')
  return { ...all, peer }
}

t.test('request content', async t => {
  const { origin, proxy, client, peer } = await opened(t)
  /** Sends a message and returns what the origin receives; `end` marks its end. */
  const send = async (method: string, fields: string, content: string, end: string): Promise<string> => {
    client.write(`${method} http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${fields}\r\n${content}`)
    const got = (await peer.until('\r\n\r\n')) + (end === '' ? '' : await peer.until(end))
    peer.write(NO_CONTENT)
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 204 /)
    return got
  }
  const sent = (method: string, framing: string, content: string, fields = '') =>
    `${method} / HTTP/1.1\r\nHost: ${origin.authority}\r\n${fields}Via: 1.1 sluice-test\r\n` +
    `${framing}Connection: keep-alive\r\n\r\n${content}`
  const CHUNKED = 'Transfer-Encoding: chunked\r\n'

  await t.test('of a known length keeps it (RFC 9110 §8.6)', async t => {
    for (const method of ['POST', 'PUT', 'PATCH', 'GET', 'HEAD', 'DELETE', 'OPTIONS']) {
      t.equal(
        await send(method, 'Content-Length: 5\r\nContent-Type: a\r\n', 'hello', 'hello'),
        sent(method, 'Content-Length: 5\r\n', 'hello', 'Content-Type: a\r\n'),
      )
    }
  })

  await t.test('a length of zero is passed on for every method (RFC 9110 §8.6)', async t => {
    for (const method of ['POST', 'PUT', 'PATCH', 'GET', 'HEAD', 'DELETE', 'OPTIONS']) {
      t.equal(await send(method, 'Content-Length: 0\r\n', '', ''), sent(method, 'Content-Length: 0\r\n', ''))
    }
  })

  await t.test(
    'POST and PATCH that say nothing of content are sent with a length of zero (RFC 9110 §8.6)',
    async t => {
      for (const method of ['POST', 'PATCH']) {
        t.equal(await send(method, '', '', ''), sent(method, 'Content-Length: 0\r\n', ''))
      }
    },
  )

  await t.test('chunked content is framed anew, without extensions (RFC 9112 §7.1.1)', async t => {
    for (const method of ['POST', 'GET', 'DELETE']) {
      client.write(`${method} http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${CHUNKED}\r\n`)
      t.equal(await peer.until('\r\n\r\n'), sent(method, CHUNKED, ''))
      client.write('005;a="b"\r\nhel')
      t.equal(await peer.until('\r\n'), '3\r\n')
      t.equal(await peer.until('\r\n'), 'hel\r\n')
      client.write('lo\r\n')
      t.equal(await peer.until(7), '2\r\nlo\r\n')
      client.write('A\r\n0123456789\r\n00;x\r\n\r\n')
      t.equal(await peer.until('0\r\n\r\n'), 'a\r\n0123456789\r\n0\r\n\r\n')
      peer.write(NO_CONTENT)
      await client.until('\r\n\r\n')
    }
  })

  await t.test('empty chunked content stays chunked content', async t => {
    t.equal(await send('POST', CHUNKED, '0\r\n\r\n', '0\r\n\r\n'), sent('POST', CHUNKED, '0\r\n\r\n'))
  })

  await t.test('trailers pass, hop-by-hop ones do not (RFC 9110 §6.5.1, §7.6.1)', async t => {
    const trailers =
      'X-Sum: a\r\nHTTP2-Settings: b\r\nx-sum: \xff\r\nProxy-Authentication-Info: c\r\nEtag: "a"\r\n'
    t.equal(
      await send(
        'PUT',
        `${CHUNKED}Trailer: X-Sum\r\n`,
        `1\r\na\r\n0\r\n${trailers}\r\n`,
        'Etag: "a"\r\n\r\n',
      ),
      sent(
        'PUT',
        CHUNKED,
        '1\r\na\r\n0\r\nX-Sum: a\r\nx-sum: \xff\r\nEtag: "a"\r\n\r\n',
        'Trailer: X-Sum\r\n',
      ),
    )
  })

  await t.test(
    'Trailer without chunked content announces nothing and is left out (RFC 9110 §6.6.2)',
    async t => {
      t.equal(
        await send('POST', 'trailer: X-Sum\r\nX: y\r\nContent-Length: 1\r\n', 'a', 'a'),
        sent('POST', 'Content-Length: 1\r\n', 'a', 'X: y\r\n'),
      )
      t.equal(
        await send('POST', 'Trailer: X-Sum\r\nContent-Length: 0\r\n', '', ''),
        sent('POST', 'Content-Length: 0\r\n', ''),
      )
    },
  )

  t.equal(origin.accepted, 1, 'all on one connection')
  t.match(await proxy.event('close', 2), { method: 'POST', bytes_up: 5, bytes_down: 0, status: 204 })
})

t.test('response content', async t => {
  const { origin, proxy, client } = await forwarded(t)
  const ask = async (method: string, response: string): Promise<void> => {
    client.write(get(origin).replace('GET', method))
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(response)
    peer.end()
  }
  const CLOSE = 'Connection: close\r\n'

  await t.test('of a known length keeps it (RFC 9112 §6.2)', async t => {
    await ask('GET', `HTTP/1.1 200 OK\r\n${CLOSE}Content-Length: 5\r\n\r\nhello`)
    t.equal(await client.until('hello'), `HTTP/1.1 200 OK\r\n${TAIL}Content-Length: 5\r\n\r\nhello`)
    await ask('GET', `HTTP/1.1 200 OK\r\n${CLOSE}Content-Length: 0\r\n\r\n`)
    t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 200 OK\r\n${TAIL}Content-Length: 0\r\n\r\n`)
    t.match(await proxy.event('close', 1), { bytes_down: 5, status: 200, close_reason: 'complete' })
    t.match(await proxy.event('close', 2), { bytes_down: 0, status: 200, close_reason: 'complete' })
  })

  await t.test('chunked content is framed anew, without extensions (RFC 9112 §7.1.1)', async t => {
    await ask(
      'GET',
      `HTTP/1.1 200 OK\r\n${CLOSE}Transfer-Encoding: Chunked\r\n\r\n005;a="b"\r\nhello\r\n000;c\r\n\r\n`,
    )
    t.equal(
      await client.until('\r\n0\r\n\r\n'),
      `HTTP/1.1 200 OK\r\n${TAIL}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    )
  })

  await t.test('trailers pass, those that frame or authenticate do not (RFC 9110 §6.5.1)', async t => {
    await ask(
      'GET',
      `HTTP/1.1 200 OK\r\n${CLOSE}Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n` +
        '1\r\na\r\n0\r\nX-Sum: \xfe\r\nSet-Cookie: a\r\nx-sum: b\r\nWWW-Authenticate: a\r\nKeep-Alive: a\r\n\r\n',
    )
    t.equal(
      await client.until('b\r\n\r\n'),
      `HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\n${TAIL}Transfer-Encoding: chunked\r\n\r\n` +
        '1\r\na\r\n0\r\nX-Sum: \xfe\r\nx-sum: b\r\n\r\n',
    )
  })

  await t.test('that ends with the connection is sent in chunks (RFC 9112 §6.3)', async t => {
    await ask('GET', 'HTTP/1.1 200 OK\r\n\r\nhello')
    t.equal(
      await client.until('\r\n0\r\n\r\n'),
      `HTTP/1.1 200 OK\r\n${TAIL}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    )
    await ask('GET', 'HTTP/1.1 200 OK\r\n\r\n')
    t.equal(
      await client.until('\r\n0\r\n\r\n'),
      `HTTP/1.1 200 OK\r\n${TAIL}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    )
  })

  await t.test('from an HTTP/1.0 origin, which Via tells (RFC 9110 §7.6.3)', async t => {
    const tail = `Date: ${DATE}\r\nVia: 1.0 sluice-test\r\n`
    await ask('GET', 'HTTP/1.0 200 OK\r\n\r\nhello')
    t.equal(
      await client.until('\r\n0\r\n\r\n'),
      `HTTP/1.1 200 OK\r\n${tail}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    )
    await ask('GET', 'HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno')
    t.equal(await client.until('\r\n\r\nno'), `HTTP/1.1 404 Not Found\r\n${tail}Content-Length: 2\r\n\r\nno`)
  })

  await t.test('HEAD has none, and the fields that a GET would have (RFC 9110 §9.3.2)', async t => {
    for (const status of ['200 OK', '404 Not Found', '204 No Content', '304 Not Modified']) {
      await ask('HEAD', `HTTP/1.1 ${status}\r\nETag: "a"\r\nContent-Length: 5\r\n\r\n`)
      const length = status.startsWith('204') ? '' : 'Content-Length: 5\r\n'
      t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 ${status}\r\nETag: "a"\r\n${TAIL}${length}\r\n`)
    }
    for (const fields of ['', 'Transfer-Encoding: chunked\r\n']) {
      await ask('HEAD', `HTTP/1.1 200 OK\r\n${fields}\r\n`)
      t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 200 OK\r\n${TAIL}\r\n`)
    }
  })

  await t.test('what an origin sends behind the head of a HEAD response reaches nobody', async t => {
    const smuggled = 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad'
    for (const fields of [
      'Content-Length: 5\r\n',
      'Content-Length: 45\r\n',
      'Transfer-Encoding: chunked\r\n',
      '',
    ]) {
      for (const content of ['hello', `5\r\nhello\r\n0\r\n\r\n`, smuggled]) {
        await ask('HEAD', `HTTP/1.1 200 OK\r\n${fields}\r\n${content}`)
        const length = fields.startsWith('Content-Length') ? fields : ''
        t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 200 OK\r\n${TAIL}${length}\r\n`)
      }
    }
  })

  await t.test('204 and 304 end with their head (RFC 9112 §6.3)', async t => {
    for (const fields of [
      '',
      'Content-Length: 0\r\n',
      'Content-Length: 5\r\n',
      'Transfer-Encoding: chunked\r\n',
    ]) {
      for (const content of ['', 'hello', '0\r\n\r\n']) {
        await ask('GET', `HTTP/1.1 204 No Content\r\n${fields}\r\n${content}`)
        t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 204 No Content\r\n${TAIL}\r\n`)
        await ask('GET', `HTTP/1.1 304 Not Modified\r\n${fields}\r\n${content}`)
        const length = fields.startsWith('Content-Length') ? fields : ''
        t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 304 Not Modified\r\n${TAIL}${length}\r\n`)
      }
    }
  })

  await t.test('205 may say that it has none (RFC 9110 §15.3.6)', async t => {
    await ask('GET', `HTTP/1.1 205 Reset Content\r\n${CLOSE}Content-Length: 0\r\n\r\n`)
    t.equal(await client.until('\r\n\r\n'), `HTTP/1.1 205 Reset Content\r\n${TAIL}Content-Length: 0\r\n\r\n`)
  })

  t.notOk(proxy.events.some(({ error }) => error !== undefined))
  t.notOk(proxy.events.some(event => event.event === 'close' && event['close_reason'] !== 'complete'))
})
