import t from 'tap'
import { parseHost } from '../../src/http/authority.js'
import { parseCidr } from '../../src/net/cidr.js'
import { ipAddressFromBytes } from '../../src/net/ip-address.js'
import type { PolicyOptions } from '../../src/policy/decision.js'
import type { Denial } from '../../src/policy/denial.js'
import { isPermit, type Permit, permitConfigured } from '../../src/policy/permit.js'
import { grantOf, type PolicyText, policy, request, type RuleText } from '../kit/fakes/policy.js'

function vet(
  text: PolicyText,
  line: string,
  addresses: readonly string[],
  options?: PolicyOptions,
): Permit | Denial {
  const made = policy(text, options)
  return made.vet(grantOf(made.admit(request(line))), addresses)
}

/** What a single rule for a.test with these terms makes of addresses: `permit`, or the class refused. */
function verdict(rule: Partial<RuleText>, ...addresses: string[]): string {
  const result = vet({ rules: { r: { hosts: ['a.test'], ...rule } } }, 'CONNECT a.test:443', addresses)
  return isPermit(result) ? 'permit' : (result.addressClass ?? result.reason)
}

const WEB = { rules: { web: { hosts: ['*'] } } }

t.test('permits global addresses and no others', async t => {
  const permit = vet(WEB, 'CONNECT a.test:443', ['1.1.1.1', '2606:4700::1111', '64:ff9b::1.1.1.1'])
  if (!isPermit(permit)) throw new Error(permit.detail)
  t.same(
    permit.addresses.map(({ text }) => text),
    ['1.1.1.1', '2606:4700::1111', '64:ff9b::101:101'],
  )
  t.match(permit.grant, { host: { name: 'a.test' }, port: 443, rule: 'web' })
  const table = [
    ['127.0.0.1', 'loopback'],
    ['::1', 'loopback'],
    ['10.0.0.1', 'private'],
    ['::ffff:10.0.0.1', 'private'],
    ['64:ff9b::10.0.0.1', 'private'],
    ['fd00::1', 'unique_local'],
    ['169.254.169.254', 'metadata'],
    ['64:ff9b::169.254.169.254', 'metadata'],
    ['2002:101:101::', 'embedded_6to4'],
    ['::7f00:1', 'embedded_compatible'],
    ['4000::1', 'reserved'],
  ] as const
  for (const [address, expected] of table) t.equal(verdict({}, address), expected, address)
})

t.test('denies a name for one bad address among several, wherever it stands', async t => {
  t.equal(verdict({}, '10.0.0.1', '1.1.1.1'), 'private')
  t.equal(verdict({}, '1.1.1.1', '10.0.0.1'), 'private')
  t.equal(verdict({}, '1.1.1.1', '1.0.0.1', '::1'), 'loopback')
})

t.test('lifts the guard for the addresses of the rule, to their exact ends', async t => {
  const rule = { addresses: ['10.4.2.16/30'] }
  for (const address of ['10.4.2.16', '10.4.2.19', '::ffff:10.4.2.17', '1.1.1.1'])
    t.equal(verdict(rule, address), 'permit', address)
  for (const address of ['10.4.2.15', '10.4.2.20', '64:ff9b::10.4.2.17'])
    t.equal(verdict(rule, address), 'private', address)
  t.equal(verdict({ addresses: ['64:ff9b::10.4.2.17/128'] }, '64:ff9b::10.4.2.17'), 'permit')
  t.equal(verdict({ addresses: ['127.0.0.0/8', '::1'] }, '127.0.0.1', '::1'), 'permit')
})

t.test('permits a metadata service by its own address alone, never by a block', async t => {
  for (const addresses of [['169.254.0.0/16'], ['169.254.169.254/31'], ['0.0.0.0/0'], ['169.254.169.253']]) {
    t.equal(verdict({ addresses }, '169.254.169.254'), 'metadata', String(addresses))
  }
  t.equal(verdict({ addresses: ['169.254.0.0/16'] }, '169.254.169.253'), 'permit')
  t.equal(verdict({ addresses: ['169.254.169.254/32'] }, '169.254.169.254'), 'permit')
  t.equal(verdict({ addresses: ['169.254.169.254'] }, '::ffff:169.254.169.254'), 'permit')
  t.equal(verdict({ addresses: ['169.254.169.254'] }, '64:ff9b::169.254.169.254'), 'metadata')
  t.equal(verdict({ addresses: ['fd00::/8'] }, 'fd00:ec2::254'), 'metadata')
  t.equal(verdict({ addresses: ['fd00:ec2::254/128'] }, 'fd00:ec2::254'), 'permit')
})

t.test('permits no tunnel or translation address, not even a listed one', async t => {
  const listed = [
    '2002:101:101::',
    '2001::1',
    '2606:4700::5efe:1.1.1.1',
    '64:ff9b:1::1.1.1.1',
    '::1.1.1.1',
    '::ffff:0:1.1.1.1',
    '2002:a9fe:a9fe::',
  ]
  for (const address of listed) t.not(verdict({ addresses: [address, '::/0'] }, address), 'permit', address)
})

t.test('pins the hosts of a rule to its addresses with addresses_only', async t => {
  const pinned = { addresses: ['10.4.2.17', '1.1.1.1'], addressesOnly: true }
  t.equal(verdict(pinned, '10.4.2.17', '1.1.1.1'), 'permit')
  t.equal(verdict(pinned, '1.0.0.1'), 'global')
  t.equal(verdict(pinned, '10.4.2.17', '1.0.0.1'), 'global')
  t.equal(verdict(pinned, '10.4.2.18'), 'private')
  t.equal(verdict({ addressesOnly: true }, '1.1.1.1'), 'global')
})

t.test('takes each matching rule by itself, and pins a host whichever rule allows it', async t => {
  const artifacts = { hosts: ['nexus.test'], addresses: ['10.4.2.17'] }
  const text = (extra: Record<string, RuleText>) => ({
    rules: { artifacts, web: { hosts: ['*'] }, ...extra },
  })
  const at = (line: string, address: string, extra = {}) => isPermit(vet(text(extra), line, [address]))
  t.ok(at('CONNECT nexus.test:443', '10.4.2.17'))
  t.ok(at('CONNECT nexus.test:443', '1.1.1.1'))
  t.notOk(at('CONNECT other.test:443', '10.4.2.17'), 'an exception holds for its own hosts')
  const port = { other: { hosts: ['nexus.test'], ports: [8443] } }
  t.notOk(at('CONNECT nexus.test:8443', '10.4.2.17', port), 'and its own ports')
  const method = { artifacts: { ...artifacts, methods: ['GET'] } }
  t.ok(at('GET nexus.test', '10.4.2.17', method))
  t.notOk(at('POST nexus.test', '10.4.2.17', method), 'and its own methods')
  const pinned = { artifacts: { ...artifacts, addressesOnly: true } }
  t.notOk(at('CONNECT nexus.test:443', '1.1.1.1', pinned), 'a rule for every host does not unpin it')
  const elsewhere = { artifacts: { ...artifacts, addressesOnly: true, ports: [8443] } }
  t.notOk(at('CONNECT nexus.test:443', '1.1.1.1', elsewhere), 'nor does one for another port')
  t.notOk(at('CONNECT nexus.test:443', '10.4.2.17', elsewhere), 'and a pin lifts nothing by itself')
  t.ok(at('CONNECT other.test:443', '1.1.1.1', pinned), 'other hosts are not pinned')
  t.ok(
    isPermit(
      vet(text({ b: { hosts: ['nexus.test'], addresses: ['10.9.9.9'] } }), 'CONNECT nexus.test:443', [
        '10.4.2.17',
        '10.9.9.9',
      ]),
    ),
  )
})

t.test('does not lift the guard for an address that hosts alone names', async t => {
  const text = { rules: { lan: { hosts: ['10.0.0.1', '169.254.169.254', 'localhost'] } } }
  for (const [host, address] of [
    ['10.0.0.1', '10.0.0.1'],
    ['169.254.169.254', '169.254.169.254'],
    ['localhost', '127.0.0.1'],
  ] as const) {
    t.match(
      vet(text, `CONNECT ${host}:443`, [address]),
      { kind: 'deny', reason: 'address', rule: 'lan' },
      host,
    )
  }
  const lifted = { rules: { lan: { hosts: ['10.0.0.1'], addresses: ['10.0.0.1'] } } }
  t.ok(isPermit(vet(lifted, 'CONNECT 10.0.0.1:443', ['10.0.0.1'])))
})

t.test('lets deny.addresses win over the exceptions, in every spelling', async t => {
  const text = {
    rules: { all: { hosts: ['*'], addresses: ['0.0.0.0/0', '::/0'] } },
    denyAddresses: ['203.0.113.0/24', '10.0.0.5', '8.8.8.0/24', '2606:4700::/32'],
  }
  const at = (address: string) => vet(text, 'CONNECT a.test:443', ['1.1.1.1', address])
  for (const address of [
    '203.0.113.0',
    '203.0.113.255',
    '10.0.0.5',
    '::ffff:10.0.0.5',
    '64:ff9b::8.8.8.8',
    '2606:4700::1',
  ]) {
    t.match(at(address), { kind: 'deny', reason: 'deny_address', status: 403 }, address)
  }
  for (const address of [
    '203.0.112.255',
    '203.0.114.0',
    '10.0.0.4',
    '10.0.0.6',
    '64:ff9b::8.8.9.8',
    '2606:4701::1',
  ]) {
    t.ok(isPermit(at(address)), address)
  }
})

t.test("opens none of Sluice's own listeners, whatever the rules say", async t => {
  const text = { rules: { all: { hosts: ['*'], ports: ['any'], addresses: ['0.0.0.0/0', '::/0'] } } }
  const options: PolicyOptions = {
    ownListeners: [
      { cidr: parseCidr('127.0.0.0/8'), port: 9128, wildcard: false, role: 'admin' },
      { cidr: parseCidr('10.0.0.7'), port: 3128, wildcard: false, role: 'proxy' },
    ],
  }
  const at = (port: number, address: string) => vet(text, `CONNECT a.test:${port}`, [address], options)
  for (const address of ['127.0.0.1', '::ffff:127.0.0.1', '0.0.0.0', '::']) {
    t.match(
      at(9128, address),
      { reason: 'own_address', status: 403, message: 'a.test:9128 is the admin listener' },
      address,
    )
  }
  t.match(at(3128, '10.0.0.7'), {
    reason: 'own_address',
    status: 508,
    message: 'a.test:3128 is this proxy itself',
  })
  t.ok(isPermit(at(9129, '127.0.0.1')))
  t.ok(isPermit(at(9128, '10.0.0.7')))
  t.ok(isPermit(at(3128, '10.0.0.8')))
})

t.test('refuses an address that is this machine’s now, where a listener has it or all', async t => {
  const made = policy(WEB, {
    ownListeners: [
      { cidr: parseCidr('127.0.0.0/8'), port: 443, wildcard: true, role: 'admin' },
      { cidr: parseCidr('10.0.0.7'), port: 80, wildcard: false, role: 'proxy' },
    ],
  })
  const own = (line: string, ...bytes: number[]) =>
    made.vetOwnAddress(grantOf(made.admit(request(line))), ipAddressFromBytes(bytes))
  t.match(own('CONNECT a.test:443', 1, 1, 1, 1), { message: 'a.test:443 is the admin listener' })
  t.match(own('GET a.test:80', 10, 0, 0, 7), { reason: 'own_address', status: 508 })
  t.equal(own('GET a.test:80', 1, 1, 1, 1), undefined, 'a listener on one address has no other')
  t.ok(isPermit(made.vet(grantOf(made.admit(request('CONNECT a.test:443'))), ['1.1.1.1'])))
})

t.test('a parent on this machine gets no name with the port of a listener of our own', async t => {
  const ownListeners = [
    { cidr: parseCidr('127.0.0.1'), port: 9128, wildcard: false, role: 'admin' as const },
    { cidr: parseCidr('10.0.0.7'), port: 3128, wildcard: false, role: 'proxy' as const },
  ]
  const text = { rules: { all: { hosts: ['*', '1.1.1.1'], ports: ['any'], addresses: [] } } }
  const at = (target: string, ...parents: string[]) => {
    const made = policy(text, { ownListeners, parentHosts: parents.map(parseHost) })
    return made.vetBehindParent(grantOf(made.admit(request(`CONNECT ${target}`))))
  }
  for (const parent of [
    '127.0.0.1',
    '127.9.9.9',
    '[::1]',
    '[::ffff:127.0.0.1]',
    'localhost',
    'p.localhost',
    '0.0.0.0',
    '10.0.0.7',
  ]) {
    t.match(at('a.test:9128', 'p.test', parent), { reason: 'own_address', status: 403 }, parent)
  }
  t.match(at('a.test:3128', '127.0.0.1'), {
    message: 'a.test:3128 may be a listener of this proxy, through parent',
    detail: /Add a\.test to parent\.no_proxy/,
  })
  t.match(at('a.test:9128', '127.0.0.1'), {
    message: 'a.test:9128 may be the admin listener, through parent',
  })
  t.equal(at('a.test:9129', '127.0.0.1'), undefined)
  t.equal(at('1.1.1.1:9128', '127.0.0.1'), undefined, 'an address is judged by itself')
  for (const parent of ['p.test', 'notlocalhost', '10.0.0.8', '1.1.1.1']) {
    t.equal(at('a.test:9128', parent), undefined, parent)
  }
})

t.test('refuses what is no plain address, and an empty list is an error', async t => {
  for (const bad of ['fe80::1%eth0', '0177.0.0.1', 'localhost', '', '[::1]']) {
    t.match(
      vet(WEB, 'CONNECT a.test:443', ['1.1.1.1', bad]),
      { kind: 'deny', reason: 'address', message: 'a.test:443 has no usable address' },
      bad,
    )
  }
  t.throws(() => vet(WEB, 'CONNECT a.test:443', []), RangeError)
})

t.test('names the class and the key that would lift it', async t => {
  const table: [Partial<RuleText>, string, string, RegExp][] = [
    [
      {},
      '10.0.0.1',
      'a.test:443 is at an address of class private',
      /^a\.test resolved to 10\.0\.0\.1, which is of class private\. .* Add 10\.0\.0\.1\/32 to rules\.r\.addresses/,
    ],
    [
      {},
      'fe80::1',
      'a.test:443 is at an address of class link_local',
      /of class link_local\. .* Add fe80::1\/128 to rules\.r\.addresses/,
    ],
    [
      {},
      '169.254.169.254',
      'a.test:443 is at an address of class metadata',
      /of class metadata \(the metadata service of AWS, Azure, .*\)\. It hands out the cloud credentials and the user data of the machine that the proxy runs on to whoever asks\. It is reached only where rules\.r\.addresses holds exactly 169\.254\.169\.254\/32: a block around it does not count\.$/,
    ],
    [
      {},
      '64:ff9b::a83f:8110',
      'a.test:443 is at an address of class metadata',
      /\(the metadata service of Azure\)\./,
    ],
    [
      {},
      '2002:101:101::',
      'a.test:443 is at an address of class embedded_6to4',
      /no configuration key allows it/,
    ],
    [
      { addressesOnly: true },
      '1.1.1.1',
      'a.test:443 is outside rules.r.addresses',
      /rules\.r\.addresses_only is true.* Add 1\.1\.1\.1\/32 to rules\.r\.addresses/,
    ],
  ]
  for (const [rule, address, message, detail] of table) {
    const denial = vet({ rules: { r: { hosts: ['a.test'], ...rule } } }, 'CONNECT a.test:443', [address])
    if (isPermit(denial)) throw new Error(`permitted in the test: ${address}`)
    t.match(denial, { status: 403, reason: 'address', rule: 'r', address, message })
    t.match(denial.detail, detail)
  }
})

t.test('makes permits for configured upstreams without vetting, and checks their text', async t => {
  const host = parseHost('api.corp.test')
  const permit = permitConfigured('origins[0].forward', host, 8080, ['10.0.0.5', '::ffff:10.0.0.6'])
  t.ok(isPermit(permit))
  t.same(
    [permit.grant.rule, permit.grant.port, permit.addresses.map(({ text }) => text)],
    ['origins[0].forward', 8080, ['10.0.0.5', '10.0.0.6']],
  )
  t.throws(() => permitConfigured('x', host, 80, []), RangeError)
  t.throws(() => permitConfigured('x', host, 80, ['0177.0.0.1']), RangeError)
})

t.test('tells a permit from its likeness', async t => {
  const permit = permitConfigured('x', parseHost('a.test'), 80, ['1.1.1.1'])
  t.notOk(isPermit({ ...permit }))
  t.notOk(isPermit(null))
  t.notOk(isPermit('permit'))
})

t.test('an upstream of the configuration may be anywhere, but for our own listeners', async t => {
  const ownListeners = [
    { cidr: parseCidr('127.0.0.0/8'), port: 3128, wildcard: false, role: 'proxy' as const },
    { cidr: parseCidr('10.0.0.1'), port: 9128, wildcard: false, role: 'admin' as const },
  ]
  const made = policy({ ...WEB, denyAddresses: ['10.0.0.0/8'] }, { ownListeners })
  const vetted = (port: number, ...addresses: string[]) =>
    made.vetConfigured('origins[0].forward', parseHost('a.test'), port, addresses)
  const permit = vetted(80, '127.0.0.1', '::ffff:10.0.0.1', '169.254.169.254')
  if (!isPermit(permit)) throw new Error(permit.detail)
  t.match(permit, { grant: { rule: 'origins[0].forward', port: 80 } })
  t.same(
    permit.addresses.map(({ text }) => text),
    ['127.0.0.1', '10.0.0.1', '169.254.169.254'],
  )
  for (const [port, address, status] of [
    [3128, '127.0.0.9', 508],
    [3128, '0.0.0.0', 508],
    [9128, '::ffff:10.0.0.1', 403],
  ] as const) {
    t.match(vetted(port, '192.0.2.1', address), { kind: 'deny', reason: 'own_address', status })
  }
  t.ok(isPermit(vetted(3129, '127.0.0.1')))
  t.ok(isPermit(vetted(9128, '10.0.0.2')))
})
