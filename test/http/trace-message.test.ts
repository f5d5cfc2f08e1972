import fc from 'fast-check'
import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { serializeTraceMessage, TRACE_CONTENT_TYPE } from '../../src/http/trace-message.js'
import { RequestReader } from '../../src/http1/request-reader.js'

const NONE: ReadonlySet<string> = new Set()
const LIMITS = { headerBytes: 16384, headerFields: 100, targetBytes: 8192 }

/** The head that the reader returns for these bytes. */
function read(text: string) {
  const reader = new RequestReader(LIMITS)
  reader.input.push(Buffer.from(text, 'latin1'))
  const event = reader.next()
  if (event?.type !== 'head') throw new Error('no head')
  return event.head
}

/** The echo of a request with these bytes. */
function echo(text: string, excluded = NONE): string {
  return serializeTraceMessage(read(text), excluded).toString('latin1')
}

t.test('the echo is the request as received, byte for byte (RFC 9110 §9.3.8, RFC 9112 §10.1)', async t => {
  t.equal(TRACE_CONTENT_TYPE, 'message/http')
  for (const request of [
    'TRACE / HTTP/1.1\r\nHost: a.test\r\n\r\n',
    'TRACE http://a.test:80/b?c=d&e HTTP/1.1\r\nhOST: other\r\nX-b: 2\r\nX-B: 1\r\nX-b: \xe4\xff\r\n\r\n',
    'TRACE / HTTP/1.0\r\n\r\n',
    'TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nVia: 1.0 x, 1.1 y\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
    'TRACE / HTTP/1.1\r\nHost: a\r\nX: a  b\tc\r\n\r\n',
  ]) {
    t.equal(echo(request), request)
  }
})

t.test('white space around a value is not part of it (RFC 9110 §5.5)', async t => {
  t.equal(
    echo('TRACE / HTTP/1.1\r\nHost:a\r\nX: \t b \t\r\nY:\r\n\r\n'),
    'TRACE / HTTP/1.1\r\nHost: a\r\nX: b\r\nY: \r\n\r\n',
  )
})

t.test('credentials and cookies are never echoed, in any case of the name (RFC 9110 §9.3.8)', async t => {
  for (const name of ['Authorization', 'PROXY-AUTHORIZATION', 'proxy-authorization', 'Cookie', 'cOOKIE']) {
    t.equal(
      echo(`TRACE / HTTP/1.1\r\nHost: a\r\n${name}: secret\r\nX: y\r\n${name}: secret\r\n\r\n`),
      'TRACE / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n',
      name,
    )
  }
  const like = 'TRACE / HTTP/1.1\r\nHost: a\r\nX-Cookie: 1\r\nCookies: 2\r\nAuthorizations: 3\r\n\r\n'
  t.equal(echo(like), like, 'names that are only like theirs are')
})

t.test('the given names are omitted too, the others are kept (RFC 9110 §9.3.8)', async t => {
  t.equal(
    echo(
      'TRACE / HTTP/1.1\r\nHost: a\r\nX-Api-Key: s\r\nX-Api: t\r\nx-api-KEY: u\r\nCookie: v\r\n\r\n',
      new Set(['x-api-key']),
    ),
    'TRACE / HTTP/1.1\r\nHost: a\r\nX-Api: t\r\n\r\n',
  )
})

t.test('the echo can be parsed as the same request', async t => {
  const name = fc.stringMatching(/^X-[A-Za-z0-9]{1,8}$/)
  const value = fc.stringMatching(
    /^(?:[\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]{0,20}[\x21-\x7e\x80-\xff])?)?$/,
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 10 }), fc.constantFrom(0, 1), (pairs, minor) => {
      const head = { method: 'TRACE', target: '/a?b', minor: minor as 0 | 1, fields: pairs.flat() }
      const again = read(
        serializeTraceMessage({ ...head, fields: FieldSection.of(head.fields) }, NONE).toString('latin1'),
      )
      const { method, target, fields } = again
      t.same({ method, target, minor: again.minor, fields: fields.list }, head)
    }),
  )
})
