import t, { type Test } from 'tap'
import { request, verdict } from '../kit/fakes/policy.js'
import { parseConfig } from '../../src/config/load.js'
import { createPolicy } from '../../src/pipeline/create-policy.js'
import type { NetworkInterfaceInfo } from 'node:os'
import { ownListeners } from '../../src/pipeline/create-policy.js'

t.test('a policy has the listeners of its configuration, unless others were bound', async t => {
  const loaded = parseConfig('version: 1\nlisten: { proxy: ["127.0.0.1:443"] }\nrules: {}\n')
  const vet = (policy: ReturnType<typeof createPolicy>) =>
    policy.vetConfigured('a', { kind: 'ipv4', name: '127.0.0.1' }, 443, ['127.0.0.1'])
  t.match(vet(createPolicy(loaded)), { kind: 'deny', reason: 'own_address' })
  const elsewhere = { proxy: [{ host: '127.0.0.1', port: 1 }], tls: undefined, admin: undefined }
  t.notMatch(vet(createPolicy(loaded, elsewhere)), { kind: 'deny' })
})

function machine(...addresses: string[]): NodeJS.Dict<NetworkInterfaceInfo[]> {
  const info = (address: string): NetworkInterfaceInfo => ({
    address,
    netmask: '',
    mac: '',
    internal: false,
    cidr: null,
    ...(address.includes(':') ? { family: 'IPv6', scopeid: 0 } : { family: 'IPv4' }),
  })
  return { eth0: addresses.map(info), none: undefined }
}

const INTERFACES = machine('10.0.0.5', 'fd00::5')

function blocks(host: string): string[] {
  const own = ownListeners([{ address: { host, port: 3128 }, role: 'proxy' }], INTERFACES)
  t.ok(own.every(({ port, role }) => port === 3128 && role === 'proxy'))
  return own.map(({ cidr }) => cidr.text)
}

t.test('an address stands only for itself', async t => {
  t.same(blocks('127.0.0.1'), ['127.0.0.1/32'])
  t.same(blocks('10.0.0.5'), ['10.0.0.5/32'])
  t.same(blocks('::1'), ['::1/128'])
  t.same(blocks('::ffff:10.0.0.5'), ['10.0.0.5/32'])
})

t.test('a wildcard stands for loopback and every address of the machine, of both families', async t => {
  const all = ['127.0.0.0/8', '::1/128', '10.0.0.5/32', 'fd00::5/128']
  t.same(blocks('0.0.0.0'), all)
  t.same(blocks('::'), all)
  t.same(blocks('::ffff:0.0.0.0'), all)
})

t.test('a wildcard is marked as one', async t => {
  for (const host of ['0.0.0.0', '::', '::ffff:0.0.0.0', '127.0.0.1', 'localhost']) {
    const own = ownListeners([{ address: { host, port: 3128 }, role: 'proxy' }], INTERFACES)
    const expected = host !== '127.0.0.1' && host !== 'localhost'
    t.ok(
      own.every(({ wildcard }) => wildcard === expected),
      host,
    )
  }
})

t.test('each listener has its port and its role', async t => {
  const own = ownListeners(
    [
      { address: { host: '127.0.0.1', port: 1 }, role: 'proxy' },
      { address: { host: '127.0.0.2', port: 2 }, role: 'admin' },
    ],
    {},
  )
  t.match(own, [
    { cidr: { text: '127.0.0.1/32' }, port: 1, wildcard: false, role: 'proxy' },
    { cidr: { text: '127.0.0.2/32' }, port: 2, wildcard: false, role: 'admin' },
  ])
  t.equal(own.length, 2)
})

const LISTS = `version: 1
rules:
  web: { hosts: [a.example], hosts_file: [hosts.txt, more.txt] }
  listed: { hosts_file: more.txt, ports: [8443] }
deny: { hosts: [x.example], hosts_file: denied.txt }
`

function listed(t: Test, yaml = LISTS): ReturnType<typeof parseConfig> {
  const folder = t.testdir({
    'hosts.txt': '# all of one domain\n*.b.example\nc.example\n',
    'more.txt': 'd.example\n',
    'denied.txt': 'bad.b.example\n*.ads.example\n192.0.2.0/24\n',
  })
  return parseConfig(yaml, 'sluice.yaml', folder)
}

t.test('a rule allows the hosts of its files, and deny refuses those of its own', async t => {
  const policy = createPolicy(listed(t))
  for (const [line, expected] of [
    ['CONNECT a.example:443', 'allow web'],
    ['CONNECT x.b.example:443', 'allow web'],
    ['CONNECT c.example:443', 'allow web'],
    ['CONNECT d.example:443', 'allow web'],
    ['CONNECT d.example:8443', 'allow listed'],
    ['CONNECT b.example:443', 'no_rule'],
    ['CONNECT a.example:8443', 'port'],
    ['CONNECT bad.b.example:443', 'deny_host'],
    ['GET x.ads.example', 'deny_host'],
    ['GET x.example', 'deny_host'],
    ['GET 192.0.2.7', 'deny_host'],
  ] as const) {
    t.equal(verdict(policy.admit(request(line))), expected, line)
  }
})

t.test('a refusal names the file and the line that a denial is in', async t => {
  const policy = createPolicy(listed(t))
  t.match(policy.admit(request('CONNECT x.ads.example:443')), {
    message: 'deny.hosts_file refuses x.ads.example:443',
    detail:
      'denied.txt:2, of deny.hosts_file, holds "*.ads.example", which matches x.ads.example, and a denial wins over every rule. Remove "*.ads.example" from denied.txt to allow it.',
    hostsFile: 'denied.txt',
  })
  t.match(policy.admit(request('CONNECT x.example:443')), {
    message: 'deny.hosts refuses x.example:443',
    hostsFile: undefined,
  })
  t.match(policy.admit(request('CONNECT z.example:443')), {
    detail:
      'No rule that this client may use names z.example. This client may use the rules: listed (more.txt), web (hosts.txt, more.txt). Add z.example to the hosts of one of them, or to a file in brackets, to allow it.',
  })
  const single = createPolicy(
    listed(t, 'version: 1\nrules: { a: { hosts: [db] } }\ndeny: { hosts_file: denied.txt }'),
  )
  const decision = single.admit(request('CONNECT db:443'))
  if (decision.kind !== 'allow') throw new Error(decision.detail)
  t.match(single.judgeCompleted(decision.grant, 'db.ads.example'), {
    message: 'deny.hosts_file refuses db:443',
    detail: /^The resolver makes db\.ads\.example of db, denied\.txt:2, of deny\.hosts_file, holds /,
  })
})

t.test('a trace says in which file and line a host is', async t => {
  const policy = createPolicy(listed(t))
  const steps = (line: string) =>
    policy
      .trace(request(line))
      .steps.filter(({ path }) => path?.includes('addresses') !== true)
      .map(({ text, path }) => `${path?.join('.')}: ${text}`)
  t.same(steps('CONNECT x.b.example:443').slice(0, 2), [
    'deny.hosts_file: none of deny.hosts, denied.txt holds x.b.example',
    'rules.web.hosts_file: rules.web names x.b.example with "*.b.example", in hosts.txt:2',
  ])
  t.same(steps('CONNECT d.example:443').slice(1, 2), [
    'rules.listed.hosts_file: rules.listed names d.example, in more.txt:1',
  ])
  t.same(steps('CONNECT a.example:443').slice(1, 2), ['rules.web.hosts.0: rules.web names a.example'])
  t.same(steps('CONNECT bad.b.example:443').slice(0, 1), [
    'deny.hosts_file: denied.txt:1, of deny.hosts_file, holds "bad.b.example", which matches bad.b.example',
  ])
  t.match(steps('CONNECT bad.b.example:443').at(-1), /^deny\.hosts_file: deny\.hosts_file refuses/)
})

t.test('a hundred thousand lines are compiled, and cost a decision no more than one', async t => {
  const lines = Array.from({ length: 100_000 }, (_, i) => `host-${i}.a${i % 97}.example`)
  const folder = t.testdir({ 'hosts.txt': lines.join('\n') })
  const loaded = parseConfig('version: 1\nrules: { web: { hosts_file: hosts.txt } }', 'f', folder)
  t.equal(loaded.files.hosts.get('hosts.txt')?.patterns.length, 100_000)
  const policy = createPolicy(loaded)
  const { get } = Map.prototype
  let lookups = 0
  t.intercept(Map.prototype, 'get', {
    value(this: Map<unknown, unknown>, key: unknown) {
      lookups += 1
      return get.call(this, key)
    },
  })
  const found = policy.admit(request('CONNECT host-99999.a89.example:443'))
  const count = lookups
  t.equal(verdict(found), 'allow web')
  t.ok(count < 20, `${count} lookups`)
})
