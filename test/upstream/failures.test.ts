import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { isNotFound, upstreamFailure } from '../../src/upstream/failures.js'

function coded(code: string): Error {
  return Object.assign(new Error(`what the system says of ${code}`), { code })
}

const CODES = [
  ['ECONNREFUSED', 'connection_refused', 502],
  ['ECONNRESET', 'connection_terminated', 502],
  ['EPIPE', 'connection_terminated', 502],
  ['ETIMEDOUT', 'connection_timeout', 504],
  ['EHOSTUNREACH', 'destination_ip_unroutable', 502],
  ['ENETUNREACH', 'destination_ip_unroutable', 502],
  ['EHOSTDOWN', 'destination_ip_unroutable', 502],
  ['ENETDOWN', 'destination_ip_unroutable', 502],
  ['EADDRNOTAVAIL', 'destination_ip_unroutable', 502],
  ['EINVAL', 'destination_ip_unroutable', 502],
  ['EACCES', 'destination_ip_unroutable', 502],
  ['EPERM', 'destination_ip_unroutable', 502],
  ['EMFILE', 'connection_limit_reached', 503],
  ['ENFILE', 'connection_limit_reached', 503],
  ['', 'connection_terminated', 502],
  ['EWHATEVER', 'connection_terminated', 502],
] as const

t.test('every code is a proxy error type with a status (RFC 9209 §2.3)', async t => {
  for (const [code, type, status] of CODES) {
    const cause = coded(code)
    const error = upstreamFailure(cause, 'a.test:80')
    t.match(error, { type, status, cause }, code)
    t.match(error.message, /^[\x20-\x7e]+: a\.test:80$/)
    t.equal(error.close, false, 'the connection of the client is as good as before')
  }
})

t.test('the side is upstream, except when file descriptors have run out', async t => {
  t.equal(upstreamFailure(coded('ECONNREFUSED'), '').side, 'upstream')
  t.match(upstreamFailure(coded('EMFILE'), ''), {
    side: 'proxy',
    reason: 'file_descriptors',
    fields: ['Retry-After', '1'],
  })
})

t.test('a ProxyError is returned as it is, any other error is a failed connection', async t => {
  const error = new ProxyError('connection_timeout', 'x')
  t.equal(upstreamFailure(error, 'a'), error)
  for (const thrown of [
    'text',
    undefined,
    null,
    { code: 'ECONNREFUSED' },
    Object.assign(new Error(), { code: 7 }),
  ]) {
    t.equal(upstreamFailure(thrown, 'a').type, 'connection_terminated')
  }
})

t.test('two errors of DNS mean that a name has no address', async t => {
  for (const code of ['ENOTFOUND', 'ENODATA']) t.ok(isNotFound(coded(code)), code)
  for (const code of ['ESERVFAIL', 'EREFUSED', 'EAI_AGAIN', 'ETIMEOUT', 'ECONNREFUSED', '']) {
    t.notOk(isNotFound(coded(code)), code)
  }
  t.notOk(isNotFound(undefined))
})
