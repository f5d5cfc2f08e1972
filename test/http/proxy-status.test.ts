import t from 'tap'
import { malformed, PROXY_ERRORS, ProxyError, type ProxyErrorType } from '../../src/errors.js'
import { proxyStatus } from '../../src/http/proxy-status.js'

t.test(
  'names the proxy, the error type and the reason as a structured field (RFC 9209 §2.1, §2.3)',
  async t => {
    t.equal(
      proxyStatus(new ProxyError('dns_error', 'no such host')),
      'sluice;error=dns_error;details="no such host"',
    )
    t.equal(
      proxyStatus(malformed('bare CR or LF')),
      'sluice;error=http_request_error;details="bare CR or LF"',
    )
  },
)

t.test('every error type of the table can be serialised (RFC 9209 §2.3)', async t => {
  for (const type of Object.keys(PROXY_ERRORS) as ProxyErrorType[]) {
    t.equal(proxyStatus(new ProxyError(type, 'x')), `sluice;error=${type};details="x"`)
  }
})

t.test('details have only printable ASCII, with quotes escaped (RFC 9209 §2.1.2)', async t => {
  const details = (message: string) =>
    proxyStatus(new ProxyError('dns_error', message)).slice('sluice;error=dns_error;details='.length)
  t.equal(details('a"b\\c'), '"a\\"b\\\\c"')
  t.equal(details('a\r\nb\0\x7f\xe9'), '"a??b???"')
})
