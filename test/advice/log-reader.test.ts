import t from 'tap'
import { draftRules } from '../../src/advice/draft-rules.js'
import {
  type LoggedTarget,
  LogSummary,
  NameSample,
  parseLogLine,
  readLogLines,
  Sightings,
} from '../../src/advice/log-reader.js'

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

const LIMIT = 1024 * 1024

async function lines(...chunks: (string | Uint8Array)[]): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = []
  async function* bytes() {
    for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
  }
  await readLogLines(bytes(), line => found.push(line))
  return found
}

t.test('gives each line without its end, wherever the chunks are cut', async t => {
  t.strictSame(await lines('a\nbc\nd'), ['a', 'bc', 'd'])
  t.strictSame(await lines('a', '\n', 'b', 'c\nd', '\n'), ['a', 'bc', 'd'])
  const text = Buffer.from('é\n€\n')
  for (let cut = 0; cut <= text.length; cut++) {
    t.strictSame(await lines(text.subarray(0, cut), text.subarray(cut)), ['é', '€'])
  }
})

t.test('leaves out empty lines', async t => {
  t.strictSame(await lines(), [])
  t.strictSame(await lines(''), [])
  t.strictSame(await lines('\n\r\n\na\n\n'), ['a'])
})

t.test('gives a line that is too long as undefined, once, and goes on behind it', async t => {
  const longest = 'x'.repeat(LIMIT)
  t.strictSame(await lines(`${longest}\nb\n`), [longest, 'b'])
  t.strictSame(await lines(`${longest}x\nb\n`), [undefined, 'b'])
  t.strictSame(await lines(longest, 'x', longest, longest, 'x\nb\n'), [undefined, 'b'])
  t.strictSame(await lines(longest, 'x'), [undefined])
  t.strictSame(await lines(longest), [longest])
  t.strictSame(await lines(longest, 'x', '\n', '\n', 'b'), [undefined, 'b'])
})

t.test('passes on what reading throws', async t => {
  async function* broken() {
    yield Buffer.from('a\n')
    throw new Error('gone')
  }
  const found: unknown[] = []
  await t.rejects(
    readLogLines(broken(), line => found.push(line)),
    { message: 'gone' },
  )
  t.strictSame(found, ['a'])
})

function decision(host: string, decision: string, more: object = {}): string {
  const event = { event: 'decision', client: 'ci', kind: 'connect', method: 'CONNECT', host, port: 443 }
  return JSON.stringify({ ...event, decision, ...more })
}

function summary(lines: (string | undefined)[], client?: string): LogSummary {
  const made = new LogSummary(client)
  for (const line of lines) made.add(line)
  return made
}

const hosts = ({ passed }: LogSummary) => [...passed.hosts.keys()]

t.test('what passed is what was allowed, or denied for show', async t => {
  const made = summary([
    decision('a.test', 'allow', { rule: 'web' }),
    decision('b.test', 'would_deny', { reason: 'no_rule' }),
    decision('c.test', 'deny', { reason: 'deny_host' }),
    decision('d.test', 'allow', { rule: 'web', reason: 'dns_error' }),
    decision('e.test', 'allow', { reason: 'client_gone' }),
  ])
  t.strictSame(hosts(made), ['a.test', 'b.test', 'd.test'])
  t.strictSame([made.lines, made.noEvents, made.decisions, made.denied], [5, 0, 5, 1])
})

t.test('counts lines that are no events, and events that are no decisions', async t => {
  const made = summary([
    undefined,
    'x',
    '{"event":"listening"}',
    decision('*', 'allow'),
    decision('a.test', 'allow'),
  ])
  t.strictSame([made.lines, made.noEvents, made.decisions], [5, 3, 1])
})

t.test('exchanges without a target are decisions and no more', async t => {
  const made = summary([
    decision('', 'deny', { kind: 'invalid' }),
    decision('a.test', 'allow', { kind: 'origin', method: 'GET' }),
  ])
  t.strictSame([made.decisions, made.denied, hosts(made)], [2, 0, []])
})

t.test('refusals for an address are told apart', async t => {
  const made = summary([
    decision('a.test', 'deny', { reason: 'address' }),
    decision('a.test', 'deny', { reason: 'address' }),
    decision('b.test', 'deny', { reason: 'no_rule' }),
  ])
  t.strictSame([made.addressRefused.count, made.addressRefused.text, made.denied], [2, 'a.test', 1])
})

t.test('a refused metadata service is counted by itself, whatever refused it', async t => {
  const made = summary([
    decision('169.254.169.254', 'deny', { reason: 'literal' }),
    decision('fd00:ec2::254', 'deny', { reason: 'address' }),
    decision('metadata.google.internal', 'would_deny', { reason: 'no_rule' }),
    decision('10.0.0.1', 'deny', { reason: 'literal' }),
  ])
  t.strictSame(
    [made.metadataRefused.text, made.addressRefused.count, made.denied, hosts(made)],
    ['169.254.169.254, fd00:ec2::254, metadata.google.internal', 0, 1, []],
  )
})

t.test('so are hosts reached at an address that is not public', async t => {
  const close = (host: string, address: string | undefined) =>
    decision(host, 'allow', { event: 'close', kind: 'forward', method: 'GET', status: 200, address })
  const made = summary([
    close('a.test', '1.1.1.1:80'),
    close('b.test', '10.0.0.1:80'),
    close('c.test', '[2606:4700::1]:80'),
    close('d.test', '[::1]:80'),
    close('e.test', undefined),
  ])
  t.equal(made.notPublic.text, 'b.test, d.test')
})

t.test('an upgrade is seen by the status of its close, in a forwarded exchange alone', async t => {
  const methods = (status: number, kind: string, method: string) => {
    const made = summary([
      decision('a.test', 'allow', { kind: 'forward', method: 'GET' }),
      decision('a.test', 'allow', { event: 'close', kind, method, status }),
    ])
    return draftRules(made.passed)[0]?.methods
  }
  t.strictSame(methods(101, 'forward', 'GET'), undefined)
  t.strictSame(methods(200, 'forward', 'GET'), ['GET'])
  t.strictSame(methods(101, 'connect', 'CONNECT'), ['GET'])
})

t.test('one client’s events are all that counts when it is asked for', async t => {
  const lines = [
    decision('a.test', 'allow'),
    decision('b.test', 'allow', { client: 'agents' }),
    decision('c.test', 'deny', { client: 'agents', reason: 'no_rule' }),
    decision('d.test', 'allow', { client: undefined }),
  ]
  const made = summary(lines, 'agents')
  t.strictSame([hosts(made), made.decisions, made.denied], [['b.test'], 2, 1])
  t.equal(made.clients.text, 'ci, agents')
  t.equal(summary(lines, 'nobody').decisions, 0)
})

t.test('of many names ten are kept', async t => {
  const noted = new NameSample()
  for (let i = 0; i < 10; i++) noted.add(`n${i}`)
  noted.add('n0')
  t.strictSame([noted.count, noted.text], [11, 'n0, n1, n2, n3, n4, n5, n6, n7, n8, n9'])
  noted.add('n10')
  t.equal(noted.text, 'n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, ...')
})

const target = (method: LoggedTarget['method'], port: number): LoggedTarget => ({
  form: method === 'CONNECT' ? 'connect' : 'forward',
  method,
  host: { kind: 'name', name: 'a.test' },
  port,
})

t.test('keeps every port of a host once, with all the ways in which it was used', async t => {
  const sightings = new Sightings()
  for (let i = 0; i < 3; i++) {
    sightings.add(target('GET', 80))
    sightings.add(target('CONNECT', 443))
    sightings.add(target('POST', 80))
  }
  sightings.addUpgrade(target('GET', 81))
  t.strictSame([...sightings.hosts.keys()], ['a.test'])
  t.same(
    [...(sightings.hosts.get('a.test') ?? [])],
    [
      [80, { tunnel: false, upgrade: false, methods: new Set(['GET', 'POST']) }],
      [443, { tunnel: true, upgrade: false, methods: new Set() }],
      [81, { tunnel: false, upgrade: true, methods: new Set() }],
    ],
  )
})
