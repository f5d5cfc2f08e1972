import t from 'tap'
import {
  errorCode,
  limitExceeded,
  malformed,
  PROXY_ERRORS,
  ProxyError,
  type ProxyErrorType,
  toProxyError,
} from '../src/errors.js'

/** The status of every type, written out, so that a change of the table must be intended. */
const STATUSES: Record<ProxyErrorType, number> = {
  dns_timeout: 504,
  dns_error: 502,
  destination_not_found: 404,
  destination_ip_prohibited: 403,
  destination_ip_unroutable: 502,
  connection_refused: 502,
  connection_terminated: 502,
  connection_timeout: 504,
  connection_write_timeout: 504,
  connection_limit_reached: 503,
  tls_protocol_error: 502,
  tls_certificate_error: 502,
  http_request_error: 400,
  http_request_denied: 403,
  http_response_incomplete: 502,
  http_response_header_section_size: 502,
  http_response_transfer_coding: 502,
  http_response_timeout: 504,
  http_upgrade_failed: 502,
  http_protocol_error: 502,
  proxy_internal_response: 500,
  proxy_internal_error: 500,
  proxy_loop_detected: 508,
}

const types = Object.keys(PROXY_ERRORS) as ProxyErrorType[]

t.test('every type has its status (RFC 9209 §2.3)', async t => {
  for (const type of types) t.equal(new ProxyError(type, 'x').status, STATUSES[type], type)
})

t.test('timeouts are 504 and no other type is (RFC 9110 §15.6.5)', async t => {
  for (const type of types) t.equal(PROXY_ERRORS[type].status === 504, type.endsWith('_timeout'), type)
})

t.test('errors of the upstream are gateway errors, errors of the client are not', async t => {
  for (const type of types) {
    const { side, status } = PROXY_ERRORS[type]
    if (side === 'upstream') t.ok([502, 503, 504].includes(status), type)
    if (side === 'client') t.ok(status >= 400 && status < 500, type)
  }
})

t.test('an error with some options replaced keeps the others', async t => {
  const cause = new Error('c')
  const whole = {
    status: 421,
    detail: 'd',
    fields: ['Allow', 'GET'],
    address: '192.0.2.1',
    close: true,
    reason: 'r',
  }
  const error = new ProxyError('destination_ip_prohibited', 'm', { ...whole, cause })
  const other = error.with({ detail: 'e', status: 403 })
  t.match(other, { ...whole, type: error.type, message: 'm', side: 'proxy', detail: 'e', status: 403 })
  t.equal(other.cause, cause)
  t.equal(error.detail, 'd')
  t.notOk('cause' in new ProxyError('dns_error', 'm').with({ status: 504 }), 'none is made up')
})

t.test('options override the table; without them the error says the least', async t => {
  const plain = new ProxyError('http_request_error', 'bad thing')
  t.match(plain, { message: 'bad thing', side: 'client', detail: undefined, fields: [], close: false })
  t.equal(plain.reason, 'http_request_error')
  t.notOk('cause' in plain)
  const cause = new Error('why')
  const full = new ProxyError('connection_limit_reached', 'full', {
    status: 429,
    detail: 'Too many.',
    fields: ['Retry-After', '1'],
    close: true,
    reason: 'tunnels',
    cause,
  })
  const { status, side, detail, fields, close, reason } = full
  t.strictSame(
    { status, side, detail, fields, close, reason },
    {
      status: 429,
      side: 'proxy',
      detail: 'Too many.',
      fields: ['Retry-After', '1'],
      close: true,
      reason: 'tunnels',
    },
  )
  t.equal(full.cause, cause)
})

t.test('a malformed message is 400 and ends the connection (RFC 9112 §2.2)', async t => {
  t.match(malformed('x'), { type: 'http_request_error', status: 400, close: true, reason: 'malformed' })
  t.match(malformed('x', 408, 'late'), { status: 408, close: true, reason: 'late' })
})

t.test(
  'anything thrown becomes a ProxyError, which has it as its cause and reveals nothing of it',
  async t => {
    const own = malformed('x')
    t.equal(toProxyError(own), own)
    for (const thrown of [new Error('secret'), 'secret', undefined, null]) {
      const error = toProxyError(thrown)
      t.match(error, { type: 'proxy_internal_error', status: 500, close: true, reason: 'internal' })
      t.equal(error.message, 'internal error')
      t.equal(error.detail, undefined)
      t.equal(error.cause, thrown)
    }
  },
)

t.test('the detail of an exceeded limit names the key that sets it', async t => {
  const error = limitExceeded('limits.x', 'http_response_timeout', 'no answer in time', { close: true })
  t.match(error, { status: 504, message: 'no answer in time', close: true })
  t.equal(error.detail, 'no answer in time; limits.x sets the limit.')
})

t.test('the code of an error is the one that the system or Node gave it', async t => {
  t.equal(errorCode(Object.assign(new Error('failed'), { code: 'EIO' })), 'EIO')
  for (const thrown of [
    new Error('none'),
    Object.assign(new Error('number'), { code: 5 }),
    'EIO',
    undefined,
    null,
    { code: 'ECONNREFUSED' },
  ]) {
    t.equal(errorCode(thrown), undefined)
  }
})
