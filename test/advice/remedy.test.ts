import t from 'tap'
import { draftRules, serializeRuleLines, serializeRules } from '../../src/advice/draft-rules.js'
import { parseLoggedTarget, Sightings } from '../../src/advice/log-reader.js'
import { draftRemedy, type RefusedByPolicy, type RemedyStep } from '../../src/advice/remedy.js'
import { defaultConfig, parseConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/schema.js'
import { parseHost } from '../../src/http/authority.js'
import { isPermit } from '../../src/policy/permit.js'
import { policyOf } from '../kit/proxies/policy-of.js'

interface Asked {
  readonly method: string
  readonly host: string
  readonly port: number
  /** What the host resolves to. */
  readonly address?: string
}

/** What a policy of this configuration says, as a refusal that a remedy is drafted for; undefined when it passes. */
function refused(config: Config, { method, host: text, port, address = '192.88.98.1' }: Asked) {
  const policy = policyOf(config)
  const form = method === 'CONNECT' ? 'connect' : 'forward'
  const host = parseHost(text)
  const target = parseLoggedTarget(form, { method, host: host.name, port })
  const verdict = policy.admit({ form, method, host, port, rules: 'all' })
  if (verdict.kind === 'deny') return { ...verdict, target, client: undefined }
  const vetted = policy.vet(verdict.grant, [host.kind === 'name' ? address : host.name])
  return isPermit(vetted) ? undefined : { ...vetted, target, client: undefined }
}

/** The YAML of the only step that has some. */
function snippet(steps: readonly RemedyStep[]): string | undefined {
  const found = steps.flatMap(({ yaml }) => yaml ?? [])
  t.ok(found.length <= 1, JSON.stringify(found))
  return found[0]
}

function snippetFor(config: Config, asked: Asked): string | undefined {
  const before = refused(config, asked)
  return before && snippet(draftRemedy(before, config))
}

const RULES = `version: 1
rules:
  web: { hosts: [a.test, "*.b.test"] }
  read: { hosts: [r.test], methods: [GET] }
  inner: { hosts: [c.test], ports: [80], addresses: ["10.0.0.1"], methods: [GET] }
  pinned: { hosts: [p.test], ports: [443, 8000-8010], addresses: ["10.0.0.1", "10.1.0.0/16"], addresses_only: true }
`

/** The file with snippets pasted at its end, which is below `rules:`. */
const pasted = (...snippets: readonly string[]): Config => parseConfig(RULES + snippets.join('')).config

const ALLOWED_BY_A_RULE: [reason: string, asked: Asked][] = [
  ['no_rule', { method: 'CONNECT', host: 'x.test', port: 443 }],
  ['no_rule', { method: 'CONNECT', host: 'x.test', port: 8443 }],
  ['no_rule', { method: 'CONNECT', host: 'x_.test', port: 443 }],
  ['no_rule', { method: 'CONNECT', host: '_x.test', port: 443 }],
  ['no_rule', { method: 'CONNECT', host: 'y-x.test', port: 443 }],
  ['no_rule', { method: 'CONNECT', host: 'y.x.test', port: 443 }],
  ['no_rule', { method: 'CONNECT', host: `${'l'.repeat(63)}.${'m'.repeat(63)}.test`, port: 443 }],
  ['no_rule', { method: 'CONNECT', host: `${'l'.repeat(63)}.${'n'.repeat(63)}.test`, port: 443 }],
  ['no_rule', { method: 'GET', host: 'x.test', port: 80 }],
  ['no_rule', { method: 'HEAD', host: 'x.test', port: 80 }],
  ['no_rule', { method: 'POST', host: 'x.test', port: 80 }],
  ['no_rule', { method: 'POST', host: 'x.test', port: 8080 }],
  ['no_rule', { method: 'POST', host: '8080-x.test', port: 80 }],
  ['port', { method: 'CONNECT', host: 'a.test', port: 8443 }],
  ['method', { method: 'POST', host: 'r.test', port: 80 }],
  ['method', { method: 'CONNECT', host: 'r.test', port: 443 }],
  ['no_rule', { method: 'CONNECT', host: 'db', port: 5432 }],
  ['literal', { method: 'CONNECT', host: '192.88.98.1', port: 443 }],
  ['literal', { method: 'CONNECT', host: '10.2.3.4', port: 443 }],
  ['literal', { method: 'GET', host: '[fd00::1]', port: 80 }],
  ['literal', { method: 'GET', host: '[fd00:0:0:1::]', port: 80 }],
  ['localhost', { method: 'GET', host: 'localhost', port: 80, address: '127.0.0.1' }],
  ['address', { method: 'CONNECT', host: 'a.test', port: 443, address: '10.2.3.4' }],
  ['address', { method: 'CONNECT', host: 'a.test', port: 443, address: '::ffff:10.2.3.5' }],
  ['address', { method: 'CONNECT', host: 'a.test', port: 443, address: 'fd00::1' }],
  ['port', { method: 'GET', host: 'c.test', port: 81, address: '10.0.0.1' }],
  ['port', { method: 'GET', host: 'c.test', port: 82, address: '10.0.0.1' }],
  ['method', { method: 'POST', host: 'c.test', port: 80, address: '10.0.0.1' }],
  ['method', { method: 'CONNECT', host: 'c.test', port: 80, address: '10.0.0.1' }],
  ['address', { method: 'GET', host: 'c.test', port: 80, address: '10.0.0.2' }],
  ['address', { method: 'GET', host: 'c.test', port: 80, address: '10.0.0.3' }],
  ['port', { method: 'CONNECT', host: 'p.test', port: 8011, address: '10.0.0.1' }],
  ['address', { method: 'CONNECT', host: 'p.test', port: 443, address: '10.9.0.1' }],
  ['address', { method: 'CONNECT', host: 'p.test', port: 443 }],
]

t.test(
  'with the YAML below `rules:`, the configuration allows what it refused, and nothing else',
  async t => {
    const { config } = parseConfig(RULES)
    for (const [reason, asked] of ALLOWED_BY_A_RULE) {
      const name = JSON.stringify(asked)
      t.equal(refused(config, asked)?.reason, reason, name)
      const yaml = snippetFor(config, asked)
      t.type(yaml, 'string', name)
      if (yaml === undefined) continue
      const after = pasted(yaml)
      t.equal(refused(after, asked), undefined, `${name}\n${yaml}`)
      for (const other of [
        { ...asked, host: 'other.test' },
        { ...asked, port: asked.port + 4000 },
      ]) {
        t.not(refused(after, other), undefined, `${name} but ${JSON.stringify(other)}`)
      }
    }
  },
)

t.test('what any two refusals suggest can be pasted into one file, and so can all of it', async t => {
  const { config } = parseConfig(RULES)
  const all = ALLOWED_BY_A_RULE.map(([, asked]) => ({ asked, yaml: snippetFor(config, asked) ?? '' }))
  t.equal(new Set(all.map(({ yaml }) => yaml)).size, all.length)
  for (const [i, one] of all.entries()) {
    for (const two of all.slice(i + 1)) {
      const after = pasted(one.yaml, two.yaml)
      for (const { asked } of [one, two]) t.equal(refused(after, asked), undefined, JSON.stringify(asked))
    }
  }
  const whole = pasted(...all.map(({ yaml }) => yaml))
  for (const { asked } of all) t.equal(refused(whole, asked), undefined, JSON.stringify(asked))
  t.equal(whole.rules.size, config.rules.size + all.length)
})

t.test('what the page suggests can be pasted below what rules and exec have drafted', async t => {
  const seen = (method: string, host: string) => {
    const sightings = new Sightings()
    const target = parseLoggedTarget('connect', { method, host, port: 443 })
    if (target !== undefined) sightings.add(target)
    return sightings
  }
  const { config } = parseConfig(RULES)
  const pieces = [
    serializeRules(draftRules(seen('CONNECT', 'rules.test'))),
    serializeRuleLines(draftRules(seen('CONNECT', 'exec.test'), { namesHosts: true })),
    snippetFor(config, { method: 'CONNECT', host: 'page.test', port: 443 }) ?? '',
  ]
  const { rules } = parseConfig(`version: 1\n${pieces.join('')}`).config
  t.same([...rules.keys()], ['https', 'https-exec_test', 'https-page_test'])
})

t.test('names tell what the rules are for', async t => {
  const { config } = parseConfig(RULES)
  const nameOf = (asked: Asked) => snippetFor(config, asked)?.trim().split(':')[0]
  const table: [string | RegExp, Asked][] = [
    ['https-y_x_test', { method: 'CONNECT', host: 'y.x.test', port: 443 }],
    ['tunnel-8443-x_test', { method: 'CONNECT', host: 'x.test', port: 8443 }],
    ['http-get-x_test', { method: 'GET', host: 'x.test', port: 80 }],
    ['http-post-8080-x_test', { method: 'POST', host: 'x.test', port: 8080 }],
    ['https-a_test-at-10_2_3_4', { method: 'CONNECT', host: 'a.test', port: 443, address: '10.2.3.4' }],
    [/^https-x__test-[0-9a-f]{6}$/, { method: 'CONNECT', host: 'x_.test', port: 443 }],
    [/^http-get-fd00__1-[0-9a-f]{6}$/, { method: 'GET', host: '[fd00::1]', port: 80 }],
  ]
  for (const [name, asked] of table) t.match(nameOf(asked), name)
})

const asked = (
  more: Partial<RefusedByPolicy> = {},
  method = 'CONNECT',
  host = 'a.test',
): RefusedByPolicy => ({
  reason: 'no_rule',
  rule: undefined,
  target: parseLoggedTarget(method === 'CONNECT' ? 'connect' : 'forward', { method, host, port: 443 }),
  address: undefined,
  client: undefined,
  ...more,
})

t.test('there is none where no line that is added would allow it', async t => {
  const { config } = parseConfig(RULES)
  const draft = (reason: string, rule?: string, address?: string) =>
    draftRemedy(asked({ reason, rule, address }), config)
  for (const reason of [
    'deny_host',
    'deny_address',
    'own_address',
    'parent',
    'client',
    'malformed',
    'other',
  ]) {
    t.same(draft(reason), [], reason)
  }
  t.same(draft('address', 'web', '2002:a00:1::1'), [], 'a tunnel address is refused always')
  t.same(draft('address', 'web', 'nonsense'), [])
  t.same(draftRemedy(asked({ target: undefined }), config), [], 'no target')
  t.equal(snippet(draft('trace_off')), 'trace: { enabled: true }\n')
})

t.test('no YAML leads to a metadata service, however it is written', async t => {
  const { config } = parseConfig(
    `${RULES}  meta: { hosts: ["169.254.169.254", m.test], addresses: ["169.254.169.254/32"] }\n`,
  )
  for (const host of ['169.254.169.254', '168.63.129.16', 'fd00:ec2::254', '64:ff9b::a9fe:a9fe']) {
    t.same(draftRemedy(asked({ reason: 'literal' }, 'GET', host), config), [], host)
  }
  for (const host of [
    'metadata.google.internal',
    'metadata.goog',
    'metadata.azure.internal',
    'instance-data',
  ]) {
    for (const reason of ['no_rule', 'single_label', 'port', 'method']) {
      t.same(draftRemedy(asked({ reason }, 'GET', host), config), [], `${host} ${reason}`)
    }
  }
  for (const address of ['169.254.170.2', '::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe']) {
    for (const rule of ['web', 'pinned', undefined]) {
      t.same(draftRemedy(asked({ reason: 'address', rule, address }), config), [], address)
    }
  }
  for (const host of ['169.254.169.254', 'm.test']) {
    t.same(draftRemedy(asked({ reason: 'port', rule: 'meta' }, 'GET', host), config), [], host)
  }
})

t.test('the rule that holds while there are none is kept, and pasted once', async t => {
  const { config } = defaultConfig()
  const remedies = ['10.0.0.1', '10.0.0.2'].map(host =>
    draftRemedy(asked({ reason: 'literal' }, 'CONNECT', host), config),
  )
  const [first = [], second = []] = remedies.map(steps => steps.flatMap(({ yaml }) => yaml ?? []))
  t.equal(first[0], 'rules:\n  web:\n    hosts: ["*"]\n')
  t.equal(second[0], first[0])
  t.equal(
    first[1],
    '  https-10_0_0_1:\n    hosts: [10.0.0.1]\n    ports: [443]\n    addresses: [10.0.0.1/32]\n',
  )
  const after = parseConfig(`version: 1\n${first.join('')}${second[1]}`).config
  for (const host of ['10.0.0.1', '10.0.0.2', 'any.test']) {
    t.equal(refused(after, { method: 'CONNECT', host, port: 443 }), undefined, host)
  }
})

t.test('a client with a list of rules is told to add the name to it, in words', async t => {
  const yaml = (rules: string, list: string) =>
    `version: 1\nrules: { ${rules} }\nclients: [{ name: ci, cidr: ["10.0.0.0/8"], rules: [${list}] }]`
  const { config } = parseConfig(yaml('a: { hosts: [x.test] }', 'a'))
  const steps = draftRemedy(asked({ client: 'ci' }), config)
  t.same(
    steps.map(({ text }) => text),
    [
      'For just this host, port and method, add a rule below `rules:`:',
      'In `clients`, add https-a_test to the list of rules of the client ci.',
    ],
  )
  const half = parseConfig(
    yaml('a: { hosts: [x.test] }, https-a_test: { hosts: [a.test], ports: [443] }', 'a'),
  )
  t.same(draftRemedy(asked({ client: 'ci' }), half.config), [steps[1]])
  const whole = parseConfig(yaml('https-a_test: { hosts: [a.test], ports: [443] }', 'https-a_test'))
  t.same(draftRemedy(asked({ client: 'ci' }), whole.config), [
    { text: 'The configuration in force allows it: rules.https-a_test.', yaml: undefined },
  ])
})

t.test('a rule of another content keeps its name', async t => {
  const { config } = parseConfig('version: 1\nrules: { https-a_test: { hosts: [b.test] } }')
  t.match(snippet(draftRemedy(asked(), config)), /^ {2}https-a_test-2:\n/)
})
