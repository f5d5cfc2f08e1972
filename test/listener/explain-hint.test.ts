import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { explainHint } from '../../src/listener/explain-hint.js'
import type { Subject } from '../../src/observe/exchange-observer.js'
import { DENY_REASONS } from '../../src/policy/denial.js'

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

t.test('asks the same question: client, method, form, host and port', async t => {
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

t.test('is there for what policy refuses, and for nothing else', async t => {
  for (const reason of [...DENY_REASONS, 'client']) t.type(hint(reason, {}), 'string', reason)
  for (const reason of ['dns_error', 'loop', 'malformed', 'trace_off']) t.equal(hint(reason, {}), undefined)
  for (const kind of ['origin', 'server', 'invalid'] as const) t.equal(hint('client', { kind }), undefined)
  t.equal(hint('no_rule', { host: undefined }), undefined)
  t.equal(hint('no_rule', { port: undefined }), undefined)
})
