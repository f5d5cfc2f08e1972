import t from 'tap'
import { PROXY_ERRORS, ProxyError, type ProxyErrorType } from '../../src/errors.js'
import { errorResponse, explainHint } from '../../src/pipeline/error-page.js'
import type { Subject } from '../../src/pipeline/exchange-observer.js'
import { DENY_REASONS } from '../../src/policy/denial.js'

t.test('an error explains itself to people and to programs (RFC 9209 §2)', async t => {
  const { head, body } = errorResponse(new ProxyError('dns_timeout', 'no answer for "a"'), 'today')
  t.equal(body.toString(), 'Sluice answered 504: no answer for "a".\n')
  t.same(head, {
    status: 504,
    reason: 'Sluice: no answer for "a"',
    fields: [
      'Date',
      'today',
      'Proxy-Status',
      'sluice;error=dns_timeout;details="no answer for \\"a\\""',
      'Content-Type',
      'text/plain; charset=utf-8',
      'Cache-Control',
      'no-store',
      'X-Content-Type-Options',
      'nosniff',
    ],
    contentLength: body.length,
  })
})

t.test('the body is the detail, the fields are added, the status is the specific one', async t => {
  const error = new ProxyError('http_request_error', 'off', {
    status: 405,
    detail: 'Två ord.',
    fields: ['Allow', ''],
  })
  const { head, body } = errorResponse(error, 'today')
  t.equal(body.toString(), 'Sluice answered 405: Två ord.\n')
  t.equal(head.contentLength, Buffer.byteLength('Sluice answered 405: Två ord.\n'))
  t.same(head.fields.slice(-2), ['Allow', ''])
  t.equal(head.status, 405)
})

t.test('a refusal by policy says that it is one, and no other error does', async t => {
  for (const type of Object.keys(PROXY_ERRORS) as ProxyErrorType[]) {
    const error = new ProxyError(type, 'no')
    const byPolicy = ['http_request_denied', 'destination_ip_prohibited', 'proxy_loop_detected'].includes(
      type,
    )
    const said = byPolicy ? 'Sluice refused this by policy: no.\n' : `Sluice answered ${error.status}: no.\n`
    t.equal(errorResponse(error, 'today').body.toString(), said)
  }
})

t.test('an error that a retry or credentials can solve does not say so either', async t => {
  for (const status of [407, 429, 503]) {
    const error = new ProxyError('http_request_denied', 'no', { status })
    t.equal(errorResponse(error, 'today').body.toString(), `Sluice answered ${status}: no.\n`)
  }
})

t.test('hint and note are separate lines after the sentence, counted in bytes', async t => {
  const error = new ProxyError('http_request_denied', 'no')
  const note = 'Frag das Plattform-Team: größer 🙂'
  const table = [
    [{ hint: 'Look.' }, 'Look.\n'],
    [{ note }, `${note}\n`],
    [{ hint: 'Look.', note }, `Look.\n${note}\n`],
    [{ hint: undefined, note: undefined }, ''],
  ] as const
  for (const [advice, lines] of table) {
    const { head, body } = errorResponse(error, 'today', advice)
    t.equal(body.toString(), `Sluice refused this by policy: no.\n${lines}`)
    t.equal(head.contentLength, Buffer.byteLength(body.toString()))
  }
})

t.test('no message can end the head early', async t => {
  const { head } = errorResponse(new ProxyError('dns_error', 'a\r\nb: c\x7f\xe9'), 'today')
  for (const text of [head.reason, ...head.fields]) t.match(text, /^[\x20-\x7e]*$/)
})

const CONNECT: Subject = {
  id: '1',
  client: 'ci',
  clientAddress: '10.0.0.7',
  kind: 'connect',
  method: 'CONNECT',
  host: 'a.test',
  port: 443,
}

const hint = (reason: string, subject: Partial<Subject>, configured = false) =>
  explainHint(new ProxyError('http_request_denied', 'no', { reason }), { ...CONNECT, ...subject }, configured)

t.test('the hint asks the same question: client, method, form, host and port', async t => {
  const table: [Partial<Subject>, string][] = [
    [{}, '--client ci a.test:443'],
    [{ client: undefined }, '--client 10.0.0.7 a.test:443'],
    [{ host: '2001:db8::1' }, "--client ci '[2001:db8::1]:443'"],
    [{ kind: 'forward', method: 'GET', port: 80 }, '--client ci http://a.test:80/'],
    [{ kind: 'forward', method: 'HEAD', path: '/?secret' }, '--client ci --method HEAD http://a.test:443/'],
    [{ kind: 'forward', method: 'M-SEARCH', port: 80 }, '--client ci --method M-SEARCH http://a.test:80/'],
    [{ kind: 'forward', method: "A|$B'`", port: 80 }, "--client ci --method 'A|$B'\\''`' http://a.test:80/"],
    [{ kind: 'forward', method: 'GET', host: '::1' }, "--client ci 'http://[::1]:443/'"],
  ]
  for (const [subject, words] of table) {
    t.equal(hint('no_rule', subject), `To see why: sluice explain ${words}`)
    t.equal(hint('no_rule', subject, true), `To see why: sluice explain --config FILE ${words}`)
  }
})

t.test('there is a hint only for refusals by policy', async t => {
  for (const reason of [...DENY_REASONS, 'client']) t.type(hint(reason, {}), 'string', reason)
  for (const reason of ['dns_error', 'loop', 'malformed', 'trace_off']) t.equal(hint(reason, {}), undefined)
  for (const kind of ['origin', 'server', 'invalid'] as const) t.equal(hint('client', { kind }), undefined)
  t.equal(hint('no_rule', { host: undefined }), undefined)
  t.equal(hint('no_rule', { port: undefined }), undefined)
})
