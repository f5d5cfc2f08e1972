import t from 'tap'
import type { Denial } from '../../src/policy/denial.js'
import { parseCidr } from '../../src/net/cidr.js'
import { isPermit } from '../../src/policy/permit.js'
import { grantOf, type PolicyText, policy, request, verdict } from '../kit/fakes/policy.js'

function decide(text: PolicyText, line: string, rules?: readonly string[]): string {
  return verdict(policy(text).admit(request(line, rules)))
}

function denialOf(text: PolicyText, line: string, rules?: readonly string[]): Denial {
  const decision = policy(text).admit(request(line, rules))
  if (decision.kind === 'deny') return decision
  throw new Error(`allowed in the test: ${line}`)
}

const WEB = { rules: { web: { hosts: ['*'] } } }

t.test('allows what a rule matches by host, method and port together', async t => {
  t.equal(decide(WEB, 'CONNECT example.com:443'), 'allow web')
  t.equal(decide(WEB, 'GET example.com'), 'allow web')
  t.equal(decide(WEB, 'CONNECT example.com:442'), 'port')
  t.equal(decide(WEB, 'CONNECT example.com:444'), 'port')
  t.equal(decide(WEB, 'CONNECT example.com:80'), 'port')
  t.equal(decide(WEB, 'GET example.com:443'), 'port')
  t.equal(decide(WEB, 'GET example.com:8080'), 'port')
})

t.test('denies what no rule names', async t => {
  t.equal(decide({ rules: {} }, 'CONNECT example.com:443'), 'no_rule')
  const text = { rules: { one: { hosts: ['example.com', '*.example.org'] } } }
  t.equal(decide(text, 'CONNECT EXAMPLE.com.:443'), 'allow one')
  t.equal(decide(text, 'CONNECT a.b.example.org:443'), 'allow one')
  for (const host of ['a.example.com', 'badexample.com', 'example.org', 'badexample.org']) {
    t.equal(decide(text, `CONNECT ${host}:443`), 'no_rule', host)
  }
})

t.test('never combines the columns of different rules', async t => {
  const text = {
    rules: {
      ports: { hosts: ['a.test'], ports: [8443] },
      hosts: { hosts: ['b.test'] },
      reads: { hosts: ['a.test'], methods: ['GET'] },
    },
  }
  t.equal(decide(text, 'CONNECT a.test:8443'), 'allow ports')
  t.equal(decide(text, 'CONNECT a.test:443'), 'port')
  t.equal(decide(text, 'CONNECT b.test:8443'), 'port')
  t.equal(decide(text, 'GET a.test'), 'allow reads')
  t.equal(decide(text, 'POST a.test'), 'port')
  t.equal(decide(text, 'POST a.test:8443'), 'allow ports')
})

t.test("takes a rule's ports instead of both port lists", async t => {
  const text = { rules: { own: { hosts: ['a.test'], ports: ['8000-8100'] } } }
  for (const port of [8000, 8100]) {
    t.equal(decide(text, `CONNECT a.test:${port}`), 'allow own')
    t.equal(decide(text, `GET a.test:${port}`), 'allow own')
  }
  for (const port of [80, 443, 7999, 8101]) {
    t.equal(decide(text, `CONNECT a.test:${port}`), 'port')
    t.equal(decide(text, `GET a.test:${port}`), 'port')
  }
})

t.test('holds methods to the exact word, and refuses CONNECT where a rule has methods', async t => {
  const text = { rules: { artifacts: { hosts: ['a.test'], methods: ['GET', 'HEAD'] } } }
  t.equal(decide(text, 'HEAD a.test'), 'allow artifacts')
  for (const method of ['POST', 'get', 'DELETE']) t.equal(decide(text, `${method} a.test`), 'method', method)
  t.equal(decide(text, 'CONNECT a.test:443'), 'method')
  t.equal(
    decide({ rules: { odd: { hosts: ['a.test'], methods: ['CONNECT'] } } }, 'CONNECT a.test:443'),
    'method',
  )
  t.equal(decide({ rules: { none: { hosts: ['a.test'], methods: [] } } }, 'GET a.test'), 'method')
})

t.test('lets a client use its own rules only', async t => {
  const text = { rules: { a: { hosts: ['a.test'] }, b: { hosts: ['b.test'] } } }
  t.equal(decide(text, 'CONNECT a.test:443', ['a']), 'allow a')
  t.equal(decide(text, 'CONNECT a.test:443', ['b']), 'no_rule')
  t.equal(decide(text, 'CONNECT a.test:443', ['b', 'a']), 'allow a')
  t.equal(decide(text, 'CONNECT a.test:443', []), 'no_rule')
  t.equal(decide(text, 'CONNECT a.test:443', ['unknown']), 'no_rule')
})

t.test('lets deny.hosts win over every rule', async t => {
  const rules = { all: { hosts: ['*', 'a.ngrok.io', 'localhost', '0.0.0.0/0', '::/0'] } }
  const table: [deny: string, line: string, expected: string][] = [
    ['*.ngrok.io', 'CONNECT a.ngrok.io:443', 'deny_host'],
    ['*.ngrok.io', 'CONNECT A.B.NGROK.IO.:443', 'deny_host'],
    ['*.ngrok.io', 'GET a.ngrok.io', 'deny_host'],
    ['*.ngrok.io', 'CONNECT ngrok.io:443', 'allow all'],
    ['*.ngrok.io', 'CONNECT angrok.io:443', 'allow all'],
    ['*', 'CONNECT example.com:443', 'deny_host'],
    ['*', 'CONNECT localhost:443', 'deny_host'],
    ['*', 'CONNECT 192.0.2.1:443', 'deny_host'],
    ['192.0.2.1', 'CONNECT 192.0.2.1:443', 'deny_host'],
    ['192.0.2.1', 'CONNECT [::ffff:c000:201]:443', 'deny_host'],
    ['192.0.2.1', 'CONNECT [64:ff9b::192.0.2.1]:443', 'deny_host'],
    ['192.0.2.0/24', 'CONNECT [2002:c000:201::]:443', 'deny_host'],
    ['192.0.2.0/24', 'CONNECT 192.0.3.1:443', 'allow all'],
    ['[2001:db8::1]', 'CONNECT [2001:db8:0::1]:443', 'deny_host'],
    ['2001:db8::1', 'CONNECT [2001:db8::2]:443', 'allow all'],
  ]
  for (const [deny, line, expected] of table)
    t.equal(decide({ rules, denyHosts: [deny] }, line), expected, `${deny}: ${line}`)
})

t.test('lets deny.addresses win for address targets, before anything is dialled', async t => {
  const text = { rules: { all: { hosts: ['0.0.0.0/0', '::/0', '*'] } }, denyAddresses: ['203.0.113.0/24'] }
  t.equal(decide(text, 'CONNECT 203.0.113.0:443'), 'deny_address')
  t.equal(decide(text, 'CONNECT 203.0.113.255:443'), 'deny_address')
  t.equal(decide(text, 'CONNECT [::ffff:203.0.113.9]:443'), 'deny_address')
  t.equal(decide(text, 'CONNECT [64:ff9b::203.0.113.9]:443'), 'deny_address')
  t.equal(decide(text, 'CONNECT 203.0.112.255:443'), 'allow all')
  t.equal(decide(text, 'CONNECT 203.0.114.0:443'), 'allow all')
  t.equal(decide(text, 'CONNECT example.com:443'), 'allow all')
})

t.test('denies address targets that no rule names by address, whatever * allows', async t => {
  t.equal(decide(WEB, 'CONNECT 1.1.1.1:443'), 'literal')
  t.equal(decide(WEB, 'CONNECT [2606:4700::1]:443'), 'literal')
  const text = {
    rules: { web: { hosts: ['*'], ports: ['any'] }, dns: { hosts: ['1.1.1.1', '2606:4700::/32'] } },
  }
  t.equal(decide(text, 'CONNECT 1.1.1.1:443'), 'allow dns')
  t.equal(decide(text, 'CONNECT [::ffff:1.1.1.1]:443'), 'allow dns')
  t.equal(decide(text, 'CONNECT [2606:4700:0:0::1]:443'), 'allow dns')
  t.equal(decide(text, 'CONNECT 1.1.1.2:443'), 'literal')
  t.equal(decide(text, 'CONNECT 1.1.1.1:8443'), 'port')
})

t.test('denies localhost unless a rule names it, and * does not (RFC 6761 §6.3)', async t => {
  for (const host of ['localhost', 'LOCALHOST.', 'a.localhost', 'a.b.localhost']) {
    t.equal(decide(WEB, `CONNECT ${host}:443`), 'localhost', host)
  }
  for (const host of ['localhost.example', 'not.localhosts', 'localhost.localdomain']) {
    t.equal(decide(WEB, `CONNECT ${host}:443`), 'allow web', host)
  }
  const text = {
    rules: { web: { hosts: ['*'], ports: ['any'] }, dev: { hosts: ['localhost', '*.localhost'] } },
  }
  t.equal(decide(text, 'CONNECT localhost:443'), 'allow dev')
  t.equal(decide(text, 'CONNECT a.localhost:443'), 'allow dev')
  t.equal(decide(text, 'CONNECT localhost:8443'), 'port')
  t.equal(decide({ rules: { dev: { hosts: ['localhost'] } } }, 'CONNECT a.localhost:443'), 'localhost')
  t.equal(decide({ rules: { dev: { hosts: ['*.localhost'] } } }, 'CONNECT localhost:443'), 'localhost')
})

t.test(
  'denies a single label unless a rule names it, and * does not: a resolver may complete it',
  async t => {
    for (const host of ['secret', 'SECRET.', 'notlocalhost', 'xn--bcher-kva']) {
      for (const line of [`CONNECT ${host}:443`, `GET ${host}`])
        t.equal(decide(WEB, line), 'single_label', line)
    }
    t.equal(decide(WEB, 'CONNECT secret.test:443'), 'allow web')
    t.equal(decide(WEB, 'CONNECT invalid:443'), 'allow web', 'a name that nobody resolves (RFC 6761 §6.4)')
    const rules = { web: { hosts: ['*', '*.db'] }, own: { hosts: ['db'] } }
    t.equal(decide({ rules }, 'CONNECT db:443'), 'allow own')
    t.equal(decide({ rules }, 'CONNECT dbs:443'), 'single_label')
    t.equal(decide({ rules, denyHosts: ['db'] }, 'CONNECT db:443'), 'deny_host')
    t.equal(
      decide({ rules: {} }, 'CONNECT secret:443'),
      'no_rule',
      'where there is no * it is like any other',
    )
    t.equal(decide({ rules }, 'CONNECT secret:443', ['own']), 'no_rule')
    t.equal(decide({ ...WEB, mode: 'observe' }, 'CONNECT secret:443'), 'allow undefined', 'only observed')
    t.match(denialOf(WEB, 'CONNECT secret:443'), {
      message: 'no rule allows secret:443',
      detail:
        'secret is a single label, which a resolver may complete to some other name, and "*" in hosts does not cover it. This client may use the rules: web. Add secret to the hosts of one of them to allow it. Or ask for the whole name, with its domain.',
    })
  },
)

t.test('what a single label is completed to', async t => {
  const text: PolicyText = {
    rules: {
      own: { hosts: ['db'], addresses: ['10.0.0.0/8'] },
      pinned: { hosts: ['*.corp.test'], addresses: ['10.1.2.3'], addressesOnly: true, sni: 'verify' },
    },
    denyHosts: ['*.secret.test'],
  }
  const judging = policy(text)
  const granted = grantOf(judging.admit(request('CONNECT db:443')))
  await t.test('is denied by deny.hosts', async t => {
    t.match(judging.judgeCompleted(granted, 'db.secret.test'), {
      kind: 'deny',
      reason: 'deny_host',
      status: 403,
      message: 'deny.hosts refuses db:443',
      detail:
        'The resolver makes db.secret.test of db, deny.hosts holds "*.secret.test", which matches that, and a denial wins over every rule. Remove "*.secret.test" from deny.hosts to allow it.',
    })
  })
  await t.test('is bound by the rules that bind their hosts, and needs none that allows it', async t => {
    const bound = judging.judgeCompleted(granted, 'db.corp.test')
    if ('kind' in bound) throw new Error('denied')
    t.match(bound, { host: { name: 'db' }, completed: 'db.corp.test', verifyServerName: true })
    t.ok(isPermit(judging.vet(bound, ['10.1.2.3'])))
    t.match(judging.vet(bound, ['10.1.2.4']), { reason: 'address', rule: 'pinned' })
    t.ok(isPermit(judging.vet(granted, ['10.1.2.4'])), 'the label by itself is not')
    t.equal(judging.judgeCompleted(granted, 'db.corp.test'), bound, 'and is remembered')
    t.match(judging.judgeCompleted(granted, 'db.other.test'), { pins: [], verifyServerName: false })
  })
})

t.test('reports the most specific rule, then the first by name', async t => {
  const rules = {
    any: { hosts: ['*'] },
    top: { hosts: ['*.com'] },
    wide: { hosts: ['*.example.com'] },
    z: { hosts: ['a.example.com'] },
    y: { hosts: ['a.example.com', '*'] },
  }
  t.equal(decide({ rules }, 'CONNECT a.example.com:443'), 'allow y')
  t.equal(decide({ rules }, 'CONNECT b.example.com:443'), 'allow wide')
  t.equal(decide({ rules }, 'CONNECT example.com:443'), 'allow top')
  t.equal(decide({ rules }, 'CONNECT example.org:443'), 'allow any')
  t.equal(
    decide({ rules: { ...rules, z: { hosts: ['a.example.com'], ports: [1] } } }, 'CONNECT a.example.com:1'),
    'allow z',
  )
})

t.test('says which key refused, and which would allow it', async t => {
  const table: [PolicyText, string, RegExp, RegExp][] = [
    [
      WEB,
      'GET example.com:8080',
      /^forward\.ports does not allow example\.com:8080$/,
      /^forward\.ports allows 80 only; add 8080 to forward\.ports, or to the ports of a rule that names the host\.$/,
    ],
    [
      { rules: { w: { hosts: ['*'], ports: [1] } } },
      'CONNECT a.test:2',
      /^rules\.w\.ports does not allow a\.test:2$/,
      /^rules\.w\.ports allows 1 only; add 2 to rules\.w\.ports\.$/,
    ],
    [
      { rules: { w: { hosts: ['*'], methods: ['GET', 'HEAD'] } } },
      'POST a.test',
      /^rules\.w\.methods does not allow POST a\.test:80$/,
      /allows GET, HEAD\. Add POST to rules\.w\.methods/,
    ],
    [
      { rules: { w: { hosts: ['*'], methods: ['GET'] } } },
      'CONNECT a.test:443',
      /^rules\.w\.methods does not allow CONNECT a\.test:443$/,
      /Remove rules\.w\.methods/,
    ],
    [
      { rules: {} },
      'CONNECT a.test:443',
      /^no rule allows a\.test:443$/,
      /may use no rule; give it one whose hosts name a\.test/,
    ],
    [
      { rules: { b: { hosts: ['b.test'] } } },
      'CONNECT a.test:443',
      /^no rule allows a\.test:443$/,
      /may use the rules: b\. Add a\.test to the hosts/,
    ],
    [
      WEB,
      'CONNECT [2001:DB8::1]:443',
      /^no rule allows \[2001:db8::1\]:443$/,
      /is an address, and "\*" in hosts covers names alone/,
    ],
    [WEB, 'CONNECT localhost:443', /^no rule allows localhost:443$/, /"\*" in hosts does not cover it/],
    [
      { ...WEB, denyHosts: ['*.test'] },
      'CONNECT a.test:443',
      /^deny\.hosts refuses a\.test:443$/,
      /deny\.hosts holds "\*\.test"/,
    ],
    [
      { ...WEB, denyAddresses: ['10.0.0.0/8'] },
      'CONNECT 10.0.0.1:443',
      /^deny\.addresses refuses 10\.0\.0\.1:443$/,
      /deny\.addresses holds 10\.0\.0\.0\/8, which holds 10\.0\.0\.1/,
    ],
  ]
  for (const [text, line, message, detail] of table) {
    const denial = denialOf(text, line)
    t.match(denial.message, message)
    t.match(denial.detail, detail)
    t.equal(denial.status, 403)
  }
})

t.test('tells a client that sends CONNECT for http:// URLs that it did', async t => {
  const denial = denialOf(WEB, 'CONNECT example.com:80')
  t.equal(denial.message, 'connect.ports does not allow example.com:80')
  t.match(
    denial.detail,
    /^connect\.ports allows 443 only; add 80 to connect\.ports, or to the ports of a rule that names the host\./,
  )
  t.match(denial.detail, /The client sent CONNECT/)
  t.notMatch(denialOf(WEB, 'CONNECT example.com:81').detail, /The client sent CONNECT/)
  t.notMatch(denialOf(WEB, 'GET example.com:81').detail, /The client sent CONNECT/)
  const own = { rules: { own: { hosts: ['*'], ports: [1] }, web: { hosts: ['*'] } } }
  t.match(denialOf(own, 'CONNECT example.com:80').detail, /The client sent CONNECT/)
})

t.test('names at most ten rules to a client', async t => {
  const rules = Object.fromEntries(
    Array.from({ length: 12 }, (_, i) => [`r${10 + i}`, { hosts: ['b.test'] }]),
  )
  t.match(denialOf({ rules }, 'CONNECT a.test:443').detail, /the rules: r10, .*, r19 and 2 more\./)
})

t.test('an address that is not public is told to need addresses as well', async t => {
  const made = policy({ rules: { web: { hosts: ['*'] } } })
  const detail = (line: string) => {
    const decision = made.admit(request(line))
    return decision.kind === 'deny' ? decision.detail : ''
  }
  const both = /It is of class private, so it has to be in addresses of the same rule, too\.$/
  t.match(detail('CONNECT 10.0.0.1:443'), both)
  t.match(
    detail('GET 169.254.169.254'),
    /^169\.254\.169\.254 is the metadata service of AWS, .* It hands out the cloud credentials and the user data of the machine that the proxy runs on to whoever asks\. It is reached only where a rule has 169\.254\.169\.254 in hosts and exactly 169\.254\.169\.254\/32 in addresses\.$/,
  )
  t.match(
    detail('GET metadata'),
    /^metadata is the metadata service of .* It hands out .* exactly its address in addresses\.$/,
  )
  t.match(detail('CONNECT 1.1.1.1:443'), /Add 1\.1\.1\.1 to the hosts of one of them to allow it\.$/)
})

const OWN = {
  ownListeners: [
    { cidr: parseCidr('127.0.0.1'), port: 3128, wildcard: false, role: 'proxy' as const },
    { cidr: parseCidr('::1'), port: 9128, wildcard: false, role: 'admin' as const },
    { cidr: parseCidr('10.0.0.7'), port: 80, wildcard: false, role: 'proxy' as const },
  ],
}

t.test('a listener of Sluice is refused as one, before what rules and deny say to its host', async t => {
  const texts: PolicyText[] = [
    WEB,
    { rules: {} },
    { ...WEB, mode: 'observe' },
    { ...WEB, denyHosts: ['localhost', '127.0.0.1'], denyAddresses: ['0.0.0.0/0', '::/0'] },
    { rules: { local: { hosts: ['localhost', '127.0.0.1'], methods: ['POST'], ports: [3128] } } },
  ]
  for (const text of texts) {
    const asked = (line: string) => policy(text, OWN).admit(request(line))
    for (const host of ['localhost', 'a.localhost', '127.0.0.1', '0.0.0.0', '[::ffff:127.0.0.1]', '[::]']) {
      const denial = asked(`GET ${host}:3128`)
      t.match(denial, { kind: 'deny', reason: 'own_address', status: 508 }, `${host} ${JSON.stringify(text)}`)
      t.match('detail' in denial && denial.detail, /No configuration key allows it: set NO_PROXY=localhost,/)
    }
    for (const host of ['localhost', '[::1]', '0.0.0.0']) {
      t.match(asked(`CONNECT ${host}:9128`), { kind: 'deny', reason: 'own_address', status: 403 }, host)
    }
    t.match(asked('CONNECT 10.0.0.7:80'), {
      reason: 'own_address',
      detail: /=localhost,127\.0\.0\.1,::1,10\.0\.0\.7 /,
    })
  }
  for (const line of ['GET localhost:3129', 'GET 127.0.0.2:3128', 'GET [::1]:3128', 'GET localhost:80']) {
    t.not(verdict(policy(WEB, OWN).admit(request(line))), 'own_address', line)
  }
})
