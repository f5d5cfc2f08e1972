import t from 'tap'
import { parseLogLine } from '../../src/advice/log-event.js'

const DECISION = {
  event: 'decision',
  client: 'ci',
  kind: 'connect',
  method: 'CONNECT',
  host: 'a.test',
  port: 443,
  decision: 'allow',
}
const CLOSE = { ...DECISION, event: 'close', kind: 'forward', method: 'GET', status: 101 }

const read = (fields: object) => parseLogLine(JSON.stringify(fields))

t.test('reads a decision and a close', async t => {
  const target = {
    form: 'connect',
    method: 'CONNECT',
    host: { kind: 'name', name: 'a.test' },
    port: 443,
  }
  t.strictSame(read({ ...DECISION, decision: 'would_deny', reason: 'no_rule', rule: 'web', more: 1 }), {
    event: 'decision',
    client: 'ci',
    target,
    decision: 'would_deny',
    reason: 'no_rule',
    rule: 'web',
  })
  t.strictSame(read({ ...CLOSE, address: '[::1]:80' }), {
    event: 'close',
    client: 'ci',
    target: { ...target, form: 'forward', method: 'GET' },
    status: 101,
    address: '[::1]:80',
  })
})

t.test('the address of a parent proxy is not that of the target', async t => {
  t.match(read({ ...CLOSE, address: '10.0.0.1:80', parent: 'http://p:80' }), { address: undefined })
})

t.test('exchanges of other kinds have no target, other events nothing', async t => {
  for (const kind of ['origin', 'server', 'invalid', undefined]) {
    t.match(read({ ...DECISION, kind, method: '', host: '*' }), { event: 'decision', target: undefined })
  }
  for (const event of ['listening', 'decisions', '']) t.strictSame(read({ event }), { event: 'other' })
})

t.test('hosts are those that a request can have, in their canonical text', async t => {
  const table: [unknown, object | undefined][] = [
    ['A.Test.', { kind: 'name', name: 'a.test' }],
    ['localhost', { kind: 'name', name: 'localhost' }],
    ['203.0.113.5', { kind: 'ipv4', name: '203.0.113.5' }],
    ['2001:DB8:0::1', { kind: 'ipv6', name: '2001:db8::1' }],
    ['::ffff:192.0.2.1', { kind: 'ipv4', name: '192.0.2.1' }],
    ['[2001:db8::1]', undefined],
    ['fe80::1%eth0', undefined],
    ['*', undefined],
    ['*.a.test', undefined],
    ['10.0.0.0/8', undefined],
    ['127.1', undefined],
    ['a.test\n', undefined],
    ['a.test: x', undefined],
    ['', undefined],
    [7, undefined],
    [undefined, undefined],
  ]
  for (const [host, expected] of table) {
    const event = read({ ...DECISION, host })
    const found = event?.event === 'decision' ? event.target?.host : event
    t.strictSame(found, expected, String(host))
  }
})

t.test('so are ports and methods, each with the form it belongs to', async t => {
  const table: [object, boolean][] = [
    [{ port: 1 }, true],
    [{ port: 65535 }, true],
    [{ port: 0 }, false],
    [{ port: 65536 }, false],
    [{ port: 80.5 }, false],
    [{ port: '80' }, false],
    [{ kind: 'forward', method: 'PATCH' }, true],
    [{ kind: 'forward', method: 'CONNECT' }, false],
    [{ kind: 'connect', method: 'GET' }, false],
    [{ kind: 'forward', method: 'PROPFIND' }, true],
    [{ kind: 'connect', method: 'PROPFIND' }, false],
    [{ kind: 'forward', method: 'Get' }, false],
    [{ kind: 'forward', method: 'A B' }, false],
    [{ kind: 'forward', method: 1 }, false],
    [{ decision: 'perhaps' }, false],
    [{ decision: undefined }, false],
  ]
  for (const [fields, good] of table) {
    t.equal(read({ ...DECISION, ...fields }) !== undefined, good, JSON.stringify(fields))
  }
})

t.test('names of clients and rules that no configuration can have are as if they were not there', async t => {
  for (const name of ['ci\x1b[2J', 'a'.repeat(64), '', 7, 'CI']) {
    t.match(read({ ...DECISION, client: name, rule: name }), { client: undefined, rule: undefined })
  }
})

t.test('anything else is no event', async t => {
  const lines = [
    '',
    '{',
    'x',
    '[]',
    'null',
    '1',
    '"decision"',
    '{}',
    '{"event":1}',
    '[12:00:00] INFO: decision',
  ]
  for (const line of lines) t.equal(parseLogLine(line), undefined, line)
})
