import t from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const environment = { wallClock: WALL_CLOCK }
const LIMITS = `${LOOPBACK_RULES}limits: { target_bytes: 256B, header_bytes: 1KiB, header_fields: 10 }\n`

type Case = readonly [name: string, request: string, status: number, reason?: string]

const H = 'Host: h\r\n'
const get = (fields: string): string => `GET / HTTP/1.1\r\n${H}${fields}\r\n`
const post = (fields: string, content = ''): string =>
  `POST / HTTP/1.1\r\n${H}${fields}\r\n${content}GET / HTTP/1.1\r\n${H}\r\n`
const line = (text: string): string => `${text}\r\n${H}\r\n`

/** RFC 9112 §2.2, §3: lines that are not request lines. */
const REQUEST_LINES: readonly Case[] = [
  ['no version, as in HTTP/0.9', line('GET /'), 400],
  ['a method alone', line('GET'), 400],
  ['no method', line(' / HTTP/1.1'), 400],
  ['two spaces', line('GET  / HTTP/1.1'), 400],
  ['a tab', line('GET\t/ HTTP/1.1'), 400],
  ['a space at the end', line('GET / HTTP/1.1 '), 400],
  ['a space in the target', line('GET /a b HTTP/1.1'), 400],
  ['a method that is no token', line('G@T / HTTP/1.1'), 400],
  ['http in lower case', line('GET / http/1.1'), 400],
  ['a version of two digits', line('GET / HTTP/1.10'), 400],
  ['a version without a dot', line('GET / HTTP/11'), 400],
  ['a bare LF', 'GET / HTTP/1.1\nHost: h\r\n\r\n', 400],
  ['a bare CR', line('GET / HTTP/1.1\r'), 400],
  ['DEL in the target', line('GET /\x7f HTTP/1.1'), 400],
  ['a byte above 0x7f in the target', line('GET /\xe9 HTTP/1.1'), 400],
  ['a fragment', line('GET /#a HTTP/1.1'), 400],
  ['the HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505, 'http_version'],
  ['HTTP/2.0', line('GET / HTTP/2.0'), 505, 'http_version'],
  ['HTTP/0.9', line('GET / HTTP/0.9'), 505, 'http_version'],
]

/** RFC 9110 §9.1: bytes are compared exactly. */
const METHODS: readonly Case[] = [
  ['Get', line('Get / HTTP/1.1'), 501, 'method_not_implemented'],
  ['get', line('get / HTTP/1.1'), 501, 'method_not_implemented'],
  ['connect', line('connect h:443 HTTP/1.1'), 501, 'method_not_implemented'],
  ['PROPFIND', line('PROPFIND / HTTP/1.1'), 501, 'method_not_implemented'],
  ['GETX', line('GETX / HTTP/1.1'), 501, 'method_not_implemented'],
  ["the token !#$%&'*+-.^_`|~", line("!#$%&'*+-.^_`|~ / HTTP/1.1"), 501, 'method_not_implemented'],
]

/** RFC 9112 §3.2, RFC 9110 §4.2.4. */
const TARGETS: readonly Case[] = [
  ['* with GET', line('GET * HTTP/1.1'), 400],
  ['* with TRACE', line('TRACE * HTTP/1.1'), 400],
  ['authority-form with GET', line('GET h:443 HTTP/1.1'), 400],
  ['absolute-form with CONNECT', line('CONNECT http://h:443 HTTP/1.1'), 400],
  ['origin-form with CONNECT', line('CONNECT /h:443 HTTP/1.1'), 400],
  ['* with CONNECT', line('CONNECT * HTTP/1.1'), 400],
  ['a relative path', line('GET a/b HTTP/1.1'), 400],
  ['https', line('GET https://h/ HTTP/1.1'), 400, 'https_target'],
  ['another scheme', line('GET ftp://h/ HTTP/1.1'), 400, 'scheme'],
  ['an empty host', line('GET http:/// HTTP/1.1'), 400],
  ['a port without a host', line('GET http://:80/ HTTP/1.1'), 400],
  ['userinfo', line('GET http://u:p@h/ HTTP/1.1'), 400],
  ['port 0', line('GET http://h:0/ HTTP/1.1'), 400],
  ['port 65536', line('GET http://h:65536/ HTTP/1.1'), 400],
  ['a zone id', line('GET http://[fe80::1%25eth0]/ HTTP/1.1'), 400],
  ['a number for an address', line('GET http://2130706433/ HTTP/1.1'), 400],
  ['a backslash', line('GET http://h\\@a/ HTTP/1.1'), 400],
]

/** RFC 9112 §3.2: exactly one valid Host. */
const HOSTS: readonly Case[] = [
  ['none', 'GET / HTTP/1.1\r\n\r\n', 400],
  ['none in HTTP/1.2', 'GET / HTTP/1.2\r\n\r\n', 400],
  ['two', get(H), 400],
  ['two in HTTP/1.0', `GET / HTTP/1.0\r\n${H}${H}\r\n`, 400],
  ['an empty one', 'GET / HTTP/1.1\r\nHost:\r\n\r\n', 400],
  ['a list', 'GET / HTTP/1.1\r\nHost: a, b\r\n\r\n', 400],
  ['userinfo', 'GET / HTTP/1.1\r\nHost: u@h\r\n\r\n', 400],
  ['a path', 'GET / HTTP/1.1\r\nHost: h/x\r\n\r\n', 400],
  ['port 65536', 'GET / HTTP/1.1\r\nHost: h:65536\r\n\r\n', 400],
  ['beside a good absolute-form', 'GET http://h/ HTTP/1.1\r\nHost: a b\r\n\r\n', 400],
]

/** RFC 9112 §5. */
const FIELDS: readonly Case[] = [
  ['white space before the colon', get('X : 1\r\n'), 400],
  ['a folded line', get('X: 1\r\n 2\r\n'), 400],
  ['a folded first line', 'GET / HTTP/1.1\r\n Host: h\r\n\r\n', 400],
  ['no colon', get('X\r\n'), 400],
  ['no name', get(': 1\r\n'), 400],
  ['a name that is no token', get('X(: 1\r\n'), 400],
  ['NUL in a value', get('X: a\0b\r\n'), 400],
  ['a bare CR in a value', get('X: a\rb\r\n'), 400],
  ['a bare LF at the end', get('X: a\n'), 400],
  ['LF CR', get('X: a\n\r'), 400],
  ['an unknown expectation (RFC 9110 §10.1.1)', get('Expect: x\r\n'), 417, 'expectation'],
  ['one unknown expectation of two', get('Expect: 100-continue, x\r\n'), 417, 'expectation'],
]

/** RFC 9112 §6: the end of the request must be unambiguous. */
const FRAMING: readonly Case[] = [
  ['both fields', post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n'), 400],
  ['both fields, the other way', post('Transfer-Encoding: chunked\r\nContent-Length: 0\r\n'), 400],
  ['two equal lengths', post('Content-Length: 5\r\nContent-Length: 5\r\n'), 400],
  ['two lengths', post('Content-Length: 5\r\nContent-Length: 6\r\n'), 400],
  ['a list of equal lengths', post('Content-Length: 5, 5\r\n'), 400],
  ['an empty length', post('Content-Length:\r\n'), 400],
  ['a sign', post('Content-Length: +5\r\n'), 400],
  ['a negative length', post('Content-Length: -1\r\n'), 400],
  ['a fraction', post('Content-Length: 5.0\r\n'), 400],
  ['hex', post('Content-Length: 0x5\r\n'), 400],
  ['two numbers', post('Content-Length: 5 5\r\n'), 400],
  ['2^53', post('Content-Length: 9007199254740992\r\n'), 400],
  ['seventeen digits', post('Content-Length: 00000000000000005\r\n'), 400],
  ['chunked in HTTP/1.0', `POST / HTTP/1.0\r\n${H}Transfer-Encoding: chunked\r\n\r\n`, 400],
  ['an empty coding', post('Transfer-Encoding:\r\n'), 400],
  ['identity', post('Transfer-Encoding: identity\r\n'), 400],
  ['chunked twice', post('Transfer-Encoding: chunked, chunked\r\n'), 400],
  ['chunked in two lines', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n'), 400],
  ['chunked not last', post('Transfer-Encoding: chunked, gzip\r\n'), 400],
  ['gzip alone', post('Transfer-Encoding: gzip\r\n'), 400],
  ['xchunked', post('Transfer-Encoding: xchunked\r\n'), 400],
  ['chunked with a parameter', post('Transfer-Encoding: chunked;q=1\r\n'), 400],
  ['chunked in quotes', post('Transfer-Encoding: "chunked"\r\n'), 400],
  ['chunked behind a vertical tab', post('Transfer-Encoding: \x0bchunked\r\n'), 400],
  ['gzip below chunked', post('Transfer-Encoding: gzip, chunked\r\n'), 501, 'transfer_coding'],
  ['CONNECT with content (RFC 9110 §9.3.6)', `CONNECT h:443 HTTP/1.1\r\n${H}Content-Length: 1\r\n\r\nx`, 400],
  ['CONNECT with chunks', `CONNECT h:443 HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
  ['TRACE with content (RFC 9110 §9.3.8)', `TRACE / HTTP/1.1\r\n${H}Content-Length: 1\r\n\r\nx`, 400],
  ['TRACE with chunks', `TRACE / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
]

/** The limits are 256 bytes of target, ten fields, 1024 bytes of fields. */
const SIZES: readonly Case[] = [
  ['a target of 257 bytes', line(`GET /${'a'.repeat(256)} HTTP/1.1`), 414, 'target_bytes'],
  ['a target without end', `GET /${'a'.repeat(1000)}`, 414, 'target_bytes'],
  ['a method without end', 'G'.repeat(1000), 501, 'method_not_implemented'],
  ['a method of 9000 bytes', line(`${'G'.repeat(9000)} / HTTP/1.1`), 501, 'method_not_implemented'],
  ['eleven fields', get('X: 1\r\n'.repeat(10)), 431, 'header_bytes'],
  ['1025 bytes of fields', get(`X: ${'a'.repeat(1025 - 7 - 3)}\r\n`), 431, 'header_bytes'],
  ['a field without end', `GET / HTTP/1.1\r\nX: ${'a'.repeat(2000)}`, 431, 'header_bytes'],
]

const TABLES = { REQUEST_LINES, METHODS, TARGETS, HOSTS, FIELDS, FRAMING, SIZES }

for (const [title, cases] of Object.entries(TABLES)) {
  t.test(
    `refuses and ends the connection: ${title.toLowerCase().replace('_', ' ')} (RFC 9112 §2.2)`,
    async t => {
      const proxy = await testProxy(t, LIMITS, environment)
      for (const [name, request, status, reason = 'malformed'] of cases) {
        await t.test(name, async t => {
          const client = await rawClient(t, proxy.port)
          const from = proxy.events.length
          client.write(request)
          const response = await readResponse(client)
          checkRefusal(t, response, { status, close: true })
          t.equal(await client.untilEnd(), '', 'one answer and the end')
          t.equal(await client.outcome(), 'end')
          await checkEvents(
            t,
            proxy,
            from,
            { level: 'warn', kind: 'invalid', decision: 'deny', reason },
            { handler: 'refusal', status, close_reason: 'refused', reason, error: 'http_request_error' },
          )
          client.destroy()
        })
      }
    },
  )
}

t.test('values just inside the limits are accepted', async t => {
  const proxy = await testProxy(t, LIMITS, environment)
  for (const request of [
    line(`GET /${'a'.repeat(255)} HTTP/1.1`),
    get('X: 1\r\n'.repeat(9)),
    get(`X: ${'a'.repeat(1024 - 7 - 3)}\r\n`),
    get('Content-Length: 0\r\n'),
    get('X: \xe9\r\n'),
    get('X:\t1 \r\n'),
    get('X:\r\n'),
    `GET / HTTP/1.0\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: H.\r\n\r\n`,
  ]) {
    const client = await rawClient(t, proxy.port)
    client.write(request)
    t.equal((await readResponse(client)).status, 404, JSON.stringify(request))
    client.destroy()
  }
})
