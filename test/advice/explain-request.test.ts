import t from 'tap'
import { readRequestLine, requestLineOf } from '../../src/advice/explain-request.js'
import { ProxyError } from '../../src/errors.js'
import { serializeHostPort } from '../../src/http/authority.js'
import { LIMITS } from '../kit/proxies/served-connection.js'

/** The request line, where it leads, or the refusal of what is malformed. */
function read(url: string, method?: string): string {
  const line = requestLineOf(url, method)
  const text = `${line.method} ${line.target}`
  try {
    const { host, port } = readRequestLine(line, LIMITS, ['REPORT'])
    return `${text} -> ${line.form} ${serializeHostPort(host, port)}${line.websocket ? ' websocket' : ''}`
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error
    return `${text} -> ${error.status} ${error.message}`
  }
}

t.test('is the request that a client with a proxy sends for the URL (RFC 9112 §3.2)', async t => {
  const table: [string, string][] = [
    ['https://a.test', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://a.test/', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://A.Test.:8443/p?q#f', 'CONNECT A.Test.:8443 -> connect a.test:8443'],
    ['https://a.test:?q', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://a.test#f', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://[::1]/', 'CONNECT [::1]:443 -> connect [::1]:443'],
    ['https://[::1]:9/', 'CONNECT [::1]:9 -> connect [::1]:9'],
    ['HTTPS://a.test', 'CONNECT a.test:443 -> connect a.test:443'],
    ['wss://a.test/', 'CONNECT a.test:443 -> connect a.test:443'],
    ['a.test:80', 'CONNECT a.test:80 -> connect a.test:80'],
    ['192.0.2.1:65535', 'CONNECT 192.0.2.1:65535 -> connect 192.0.2.1:65535'],
    ['[2001:DB8::1]:22', 'CONNECT [2001:DB8::1]:22 -> connect [2001:db8::1]:22'],
    ['http://a.test', 'GET http://a.test -> forward a.test:80'],
    ['http://a.test:8080/p?q', 'GET http://a.test:8080/p?q -> forward a.test:8080'],
    ['HTTP://a.test/', 'GET HTTP://a.test/ -> forward a.test:80'],
    ['ws://a.test/s', 'GET http://a.test/s -> forward a.test:80 websocket'],
  ]
  for (const [url, expected] of table) t.equal(read(url), expected)
  t.equal(read('http://a.test/', 'DELETE'), 'DELETE http://a.test/ -> forward a.test:80')
  t.equal(read('http://a.test/', 'REPORT'), 'REPORT http://a.test/ -> forward a.test:80')
  t.equal(read('http://a.test/', 'report'), 'report http://a.test/ -> 501 method not implemented')
  t.equal(read('http://a.test/', 'OPTIONS'), 'OPTIONS http://a.test/ -> forward a.test:80')
  t.equal(read('a.test:1', 'CONNECT'), 'CONNECT a.test:1 -> connect a.test:1')
})

t.test('what is malformed is refused as the proxy refuses it, and nothing is repaired', async t => {
  const table: [string, string][] = [
    ['a.test:0', '400 bad port'],
    ['a.test:65536', '400 bad port'],
    ['0177.0.0.1:443', '400 bad IPv4 literal'],
    ['127.1:443', '400 bad IPv4 literal'],
    ['[fe80::1%lo]:443', '400 bad IPv6 literal'],
    ['https://', '400 empty host'],
    ['https://u:p@a.test/', '400 userinfo in the authority'],
    ['https://u@a.test/', '400 userinfo in the authority'],
    ['https://a..test/', '400 bad host name'],
    ['https://bücher.test/', '400 bad byte in the request target'],
    ['http://u@a.test/', '400 userinfo in the authority'],
    ['http://a.test/#f', '400 fragment in the request target'],
    ['http://a.test/a b', '400 bad byte in the request target'],
    ['http:///p', '400 empty host'],
    [`http://a.test/${'x'.repeat(LIMITS.targetBytes)}`, '414 request target too long'],
  ]
  for (const [url, refusal] of table) t.equal(read(url).split(' -> ')[1], refusal, url)
  for (const [method, refusal] of [
    ['get', '501 method not implemented'],
    ['PROPFIND', '501 method not implemented'],
    ['G(T', '400 bad method'],
    ['', '400 bad request line'],
  ] as const) {
    t.equal(read('http://a.test/', method).split(' -> ')[1], refusal, method)
  }
})

t.test('what can be no request at all is an error of usage', async t => {
  const other = /^expected https:\/\/, http:\/\/, wss:\/\/, ws:\/\/ or host:port, found "/
  for (const url of ['ftp://a.test/', 'socks5://a.test:1', 'x+y://a'])
    t.throws(() => requestLineOf(url), other)
  for (const url of ['a.test', '10.0.0.1', '', '[::1]']) {
    t.throws(() => requestLineOf(url), { message: `write https://${url}/, http://${url}/ or ${url}:443` })
  }
  for (const url of ['http://a.test/', 'ws://a.test/']) {
    t.throws(() => requestLineOf(url, 'CONNECT'), /^a CONNECT has no URL/)
  }
  t.throws(() => requestLineOf('a.test:443\r\nX: y'), /no line breaks/)
  t.throws(() => requestLineOf('http://a.test/\n'), /no line breaks/)
  t.throws(() => requestLineOf('http://a.test/', 'GET\n'), /no line breaks/)
  for (const url of ['https://a.test/', 'wss://a.test/', 'a.test:443']) {
    t.throws(() => requestLineOf(url, 'GET'), /^--method is for http:\/\/ and ws:\/\//)
  }
})
