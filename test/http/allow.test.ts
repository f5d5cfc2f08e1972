import t from 'tap'
import { resourceMethods, serializeAllow, serverMethods } from '../../src/http/allow.js'
import { METHOD_NAMES } from '../../src/http/method.js'

t.test('lists the methods in the order of the table, each once (RFC 9110 §10.2.1)', async t => {
  t.equal(serializeAllow(METHOD_NAMES), 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH')
  t.equal(serializeAllow(['PATCH', 'OPTIONS', 'GET', 'HEAD', 'GET']), 'GET, HEAD, OPTIONS, PATCH')
  t.equal(serializeAllow(new Set(['DELETE', 'PUT'] as const)), 'PUT, DELETE')
  t.equal(serializeAllow(['TRACE']), 'TRACE')
  t.equal(serializeAllow(['REPORT', 'ACL', 'PATCH', 'REPORT']), 'PATCH, REPORT, ACL')
})

t.test('an empty Allow says that no method is allowed (RFC 9110 §10.2.1)', async t => {
  t.equal(serializeAllow([]), '')
})

t.test('the methods depend on TRACE and on extension methods (RFC 9110 §10.2.1)', async t => {
  const table = [
    [{ trace: false, extra: [] }, 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, PATCH'],
    [{ trace: true, extra: [] }, 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH'],
    [{ trace: false, extra: ['Z', 'A'] }, 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, PATCH, Z, A'],
  ] as const
  for (const [use, allow] of table) {
    t.equal(serializeAllow(serverMethods(use)), allow)
    t.equal(serializeAllow(resourceMethods(use)), allow.replace('CONNECT, ', ''), 'no resource has CONNECT')
  }
})
