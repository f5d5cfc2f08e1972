/** Malformed HTTP/1.1 responses: 502, and nothing of them reaches another client. */
import t from 'tap'
import { forwarded, get } from '../kit/proxies/setups.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { OK_LINE } from '../kit/peers/responses.js'

const HI = 'Content-Length: 2\r\n\r\nhi'
const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n'
const LONG = 'x'.repeat(1000)

/** Heads that must not be forwarded, by their error. */
const MALFORMED = {
  http_protocol_error: {
    'Content-Length with Transfer-Encoding (RFC 9112 §6.3)': [
      `${OK_LINE}Content-Length: 2\r\n${CHUNKED}`,
      `${OK_LINE}Transfer-Encoding: chunked\r\n${HI}`,
    ],
    'more than one Content-Length (RFC 9112 §6.3)': [
      `${OK_LINE}Content-Length: 2\r\n${HI}`,
      `${OK_LINE}Content-Length: 3\r\n${HI}`,
      `${OK_LINE}Content-Length: 2, 2\r\n\r\nhi`,
    ],
    'an odd Content-Length (RFC 9110 §8.6)': ['', '+2', '-2', '2 2', '0x2', '2a', '2;', '1e1', '9'.repeat(17)]
      .concat(['9007199254740992', '99999999999999999999'])
      .map(length => `${OK_LINE}Content-Length: ${length}\r\n\r\nhi`),
    'a bare LF (RFC 9112 §2.2)': [
      `HTTP/1.1 200 OK\n${HI}`,
      `${OK_LINE}X: y\n${HI}`,
      `${OK_LINE}Content-Length: 2\r\nX: y\n\nhi`,
      'HTTP/1.1 200 OK\nContent-Length: 2\n\nhi',
      `${OK_LINE}Content-Length: 2\n\r\nhi`,
    ],
    'a bare CR (RFC 9112 §2.2)': [
      `HTTP/1.1 200 O\rK\r\n${HI}`,
      `${OK_LINE}X: a\rb\r\n${HI}`,
      `${OK_LINE}X: a\r${HI}`,
      `${OK_LINE}X: a\r\r\n${HI}`,
      `${OK_LINE}Content-Length: 2\r\r\n\r\nhi`,
    ],
    'a folded line (RFC 9112 §5.2)': [
      `${OK_LINE}X: a\r\n b\r\n${HI}`,
      `${OK_LINE}X: a\r\n\tb\r\n${HI}`,
      `${OK_LINE}X:\r\n b\r\n${HI}`,
      `${OK_LINE}Content-Length:\r\n 2\r\n\r\nhi`,
      `${OK_LINE}Transfer-Encoding:\r\n ${CHUNKED.slice('Transfer-Encoding: '.length)}`,
      `${OK_LINE} X: a\r\n${HI}`,
    ],
    'space in front of the colon (RFC 9112 §5.1)': [
      `${OK_LINE}Content-Length : 2\r\n\r\nhi`,
      `${OK_LINE}Transfer-Encoding : chunked\r\n${HI}`,
      `${OK_LINE}X : y\r\n${HI}`,
      `${OK_LINE}X\t: y\r\n${HI}`,
    ],
    'a bad field name (RFC 9110 §5.1)': [
      `${OK_LINE}X\r\n${HI}`,
      `${OK_LINE}: y\r\n${HI}`,
      `${OK_LINE}X(: y\r\n${HI}`,
      `${OK_LINE}X\xe9: y\r\n${HI}`,
      `${OK_LINE}X\0: y\r\n${HI}`,
    ],
    'a control character in a value (RFC 9110 §5.5)': ['\0', '\x01', '\x0b', '\x1f', '\x7f'].map(
      byte => `${OK_LINE}X: a${byte}b\r\n${HI}`,
    ),
    'no status line (HTTP/0.9)': ['<html>hello</html>\r\n\r\n', 'hello\r\n\r\n', 'SSH-2.0-OpenSSH_9\r\n\r\n'],
    'another version (RFC 9112 §2.3)': [
      'HTTP/2.0',
      'HTTP/0.9',
      'HTTP/1.2',
      'HTTP/1.10',
      'HTTP/1.',
      'HTTP/11',
      'HTTP/1',
      'http/1.1',
      'RTSP/1.0',
      'ICE/1.0',
      'ICY',
    ].map(version => `${version} 200 OK\r\n${HI}`),
    'a status that is not three digits, or below 100 (RFC 9112 §4)': [
      '99',
      '1000',
      '20x',
      '20',
      '2',
      '099',
      '000',
      '-20',
      '+200',
      '',
      ' 200',
    ].map(status => `HTTP/1.1 ${status} OK\r\n${HI}`),
    'bytes in front of the status line': [` ${OK_LINE}${HI}`, `x${OK_LINE}${HI}`, `\0${OK_LINE}${HI}`],
  },
  http_response_transfer_coding: {
    'a transfer coding other than chunked (RFC 9112 §6.1)': [
      'gzip, chunked',
      'gzip',
      'chunked, gzip',
      'chunked, chunked',
      'chunked\r\nTransfer-Encoding: chunked',
      'xchunked',
      'chunkedx',
      'chunked;a=b',
      '"chunked"',
      'identity',
      ',chunked',
    ].map(coding => `${OK_LINE}Transfer-Encoding: ${coding}\r\n\r\n2\r\nhi\r\n0\r\n\r\n`),
    'Transfer-Encoding in HTTP/1.0 (RFC 9112 §6.1)': [`HTTP/1.0 200 OK\r\n${CHUNKED}`],
  },
  http_response_header_section_size: {
    'a header section that is too large': [
      `${OK_LINE}${`X: ${LONG}\r\n`.repeat(17)}${HI}`,
      `${OK_LINE}X: ${LONG.repeat(17)}`,
    ],
    'a status line without an end (RFC 9112 §4)': [`HTTP/1.1 200 ${LONG.repeat(17)}`],
    'empty lines without an end (RFC 9112 §2.2)': ['\r\n'.repeat(8500)],
  },
} as const

t.test('an empty Transfer-Encoding is 502 (RFC 9112 §6.1)', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`${OK_LINE}Transfer-Encoding: \r\n\r\n2\r\nhi\r\n0\r\n\r\n`)
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 Sluice: /)
  // Newer parsers reject it themselves, as not HTTP at all.
  const error = /^http_(response_transfer_coding|protocol_error)$/
  t.match(await proxy.event('close'), { status: 502, close_reason: 'failed', error, bytes_down: 0 })
})

t.test('an endless status line after an interim response is 502 too', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 ')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 103 /)
  peer.write(`200 ${LONG.repeat(17)}`)
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 Sluice: /)
  const error = 'http_response_header_section_size'
  t.match(await proxy.event('close'), { status: 502, close_reason: 'failed', error, bytes_down: 0 })
})

for (const [error, groups] of Object.entries(MALFORMED)) {
  for (const [what, responses] of Object.entries(groups) as [string, readonly string[]][]) {
    t.test(`${what} is 502`, async t => {
      const { origin, proxy, client } = await forwarded(t)
      for (const [i, response] of responses.entries()) {
        client.write(get(origin))
        const peer = await origin.accept()
        await peer.until('\r\n\r\n')
        peer.write(response)
        const head = await client.until('\r\n\r\n')
        const label = JSON.stringify(response).slice(0, 70)
        t.match(head, /^HTTP\/1\.1 502 Sluice: /, label)
        await client.until(Number(/Content-Length: (\d+)/.exec(head)?.[1]))
        await peer.untilEnd()
        const close = await proxy.event('close', i + 1)
        t.match(close, { status: 502, close_reason: 'failed', error, bytes_down: 0 }, label)
      }
      t.equal(origin.accepted, responses.length, 'never sent twice')
    })
  }
}

t.test('an error in the middle of a response never looks complete (RFC 9112 §8)', async t => {
  for (const rest of [
    'zz\r\n0\r\n\r\n',
    '-1\r\n\r\n0\r\n\r\n',
    '0x2\r\nhi\r\n0\r\n\r\n',
    '2\nhi\r\n0\r\n\r\n',
    '2\r\nhi\n0\r\n\r\n',
    '2\r\nhixx0\r\n\r\n',
    '2 \r\nhi\r\n0\r\n\r\n',
    ' 2\r\nhi\r\n0\r\n\r\n',
    '\r\n0\r\n\r\n',
    '2;a\rb\r\nhi\r\n0\r\n\r\n',
    '2;a\nhi\r\n0\r\n\r\n',
    '2;\x01\r\nhi\r\n0\r\n\r\n',
    'ffffffffffffffffff\r\nhi\r\n0\r\n\r\n',
    '0\n\n',
    '0\r\nX: a\n\r\n',
    '0\r\nX: a\r\n b\r\n\r\n',
    '0\r\nX : a\r\n\r\n',
    '0\r\nX: a\0b\r\n\r\n',
    '0\r\nContent-Length: 5\r\n\r\n',
    `0\r\n${`X: ${LONG}\r\n`.repeat(17)}\r\n`,
  ]) {
    const { origin, proxy, client } = await forwarded(t)
    client.write(get(origin))
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(`${OK_LINE}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n`)
    await client.until('2\r\nab\r\n')
    peer.write(rest)
    t.notMatch(await client.untilEnd(), /(^|\n)0\r\n/, JSON.stringify(rest).slice(0, 50))
    await peer.untilEnd()
    t.match(await proxy.event('close'), { status: 200, close_reason: 'upstream_incomplete' })
  }
})

t.test('bytes after a response are passed to no client (RFC 9112 §11.1)', async t => {
  const smuggled = 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad'
  for (const [what, response] of [
    ['length', `${OK_LINE}${HI}`],
    ['chunked', `${OK_LINE}${CHUNKED}`],
    ['204', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['304', 'HTTP/1.1 304 Not Modified\r\n\r\n'],
  ] as const) {
    for (const extra of [smuggled, 'x', '\0', '\r\n', 'HTTP/1.1 100 Continue\r\n\r\n']) {
      for (const apart of [false, true]) {
        if (extra === '\r\n' && !apart) continue
        const { origin, proxy, client } = await forwarded(t)
        client.write(get(origin))
        const peer = await origin.accept()
        await peer.until('\r\n\r\n')
        peer.write(apart ? response : response + extra)
        await client.until(response.endsWith('hi') ? 'hi' : '\r\n\r\n')
        await proxy.event('close')
        if (apart) peer.write(extra)
        // The connection with the stray bytes is closed; the next request gets a new one.
        await peer.untilEnd()
        const other = await rawClient(t, proxy.port)
        other.write(get(origin))
        const fresh = await origin.accept()
        await fresh.until('\r\n\r\n')
        fresh.write(`${OK_LINE}Content-Length: 4\r\n\r\ngood`)
        const seen = await other.until('good')
        t.match(seen, /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\ngood$/, `${what}${apart ? ', apart' : ''}`)
        t.notMatch(client.received + other.received, 'bad')
      }
    }
  }
})

t.test('an empty line between two responses is accepted', async t => {
  const { origin, client } = await forwarded(t)
  client.write(get(origin))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`${OK_LINE}${HI}\r\n`)
  await client.until('hi')
  client.write(get(origin))
  // On the same connection, or on another one if the line was unrequested.
  const again = peer.until('\r\n\r\n').then(
    () => peer,
    () => origin.accept(),
  )
  const used = await again
  used.write(`\r\n${OK_LINE}Content-Length: 4\r\n\r\ngood`)
  t.match(await client.until('good'), /^HTTP\/1\.1 200 OK\r\n/)
})
