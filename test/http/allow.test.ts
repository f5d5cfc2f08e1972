import t from 'tap'
import { serializeAllow } from '../../src/http/allow.js'
import { METHOD_NAMES } from '../../src/http/method.js'

t.test('lists the methods in the order of the table, each once (RFC 9110 §10.2.1)', async t => {
  t.equal(serializeAllow(METHOD_NAMES), 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH')
  t.equal(serializeAllow(['PATCH', 'OPTIONS', 'GET', 'HEAD', 'GET']), 'GET, HEAD, OPTIONS, PATCH')
  t.equal(serializeAllow(new Set(['DELETE', 'PUT'] as const)), 'PUT, DELETE')
  t.equal(serializeAllow(['TRACE']), 'TRACE')
})

t.test('an empty Allow says that no method is allowed (RFC 9110 §10.2.1)', async t => {
  t.equal(serializeAllow([]), '')
})
