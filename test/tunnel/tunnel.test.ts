import t from 'tap'
import { PROXY_ERRORS, ProxyError, type ProxyErrorType } from '../../src/errors.js'
import { connectFailure } from '../../src/tunnel/tunnel.js'

t.test('every failure of a CONNECT is 403, 502 or 504 (RFC 9110 §9.3.6)', async t => {
  const met: readonly [ProxyErrorType, number][] = [
    ['dns_error', 502],
    ['dns_timeout', 504],
    ['destination_ip_prohibited', 403],
    ['destination_ip_unroutable', 502],
    ['connection_refused', 502],
    ['connection_terminated', 502],
    ['connection_timeout', 504],
    ['connection_limit_reached', 502],
    ['http_request_denied', 403],
    ['proxy_loop_detected', 403],
  ]
  for (const [type, status] of met) {
    const met = { detail: 'd', reason: 'r', close: true, address: '192.0.2.1' }
    const error = connectFailure(new ProxyError(type, 'm', met))
    t.match(error, { type, status, message: 'm', ...met })
    t.ok([403, 502, 504].includes(error.status))
  }
})

t.test('an error that has such a status is not changed', async t => {
  const error = new ProxyError('dns_error', 'm')
  t.equal(connectFailure(error), error)
  const loop = new ProxyError('proxy_loop_detected', 'm')
  t.equal(PROXY_ERRORS.proxy_loop_detected.status, 508)
  t.equal(connectFailure(loop).cause, loop)
})
