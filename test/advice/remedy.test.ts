import t from 'tap'
import { type Config, defaultConfig, parseConfig } from '../../src/index.js'
import { parseHost } from '../../src/http/authority.js'
import { parseLoggedTarget } from '../../src/advice/log-event.js'
import { draftRemedy } from '../../src/advice/remedy.js'
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

/** The configuration with keys of one rule replaced, or with a rule more, as the remedy says. */
function amended(yaml: string, remedy: string): Config {
  const [first = '', ...rest] = remedy.split('\n').filter(line => !line.startsWith('#'))
  t.equal(first, 'rules:')
  const name = rest[0]?.trim().replace(':', '') ?? ''
  const lines = yaml.split('\n').flatMap(line => {
    if (!line.startsWith(`  ${name}: {`)) return [line]
    const changed = rest
      .slice(1)
      .filter(Boolean)
      .map(text => text.trim())
    const keys = changed.map(text => text.slice(0, text.indexOf(':')))
    const kept = line
      .slice(line.indexOf('{') + 1, line.lastIndexOf('}'))
      .split(/, (?=[a-z_]+:)/)
      .map(text => text.trim())
      .filter(text => !keys.some(key => text.startsWith(`${key}:`)))
    return [`  ${name}: { ${[...kept, ...changed].join(', ')} }`]
  })
  const isChange = lines.join('\n') !== yaml
  return parseConfig(`version: 1\n${isChange ? lines.join('\n') : `${yaml.trimEnd()}\n${rest.join('\n')}`}`)
    .config
}

const YAML = `
rules:
  web: { hosts: [a.test, "*.b.test"] }
  read: { hosts: [r.test], methods: [GET] }
  inner: { hosts: [c.test], ports: [80], addresses: ["10.0.0.1"], methods: [GET] }
  pinned: { hosts: [p.test], ports: [443, 8000-8010], addresses: ["10.0.0.1", "10.1.0.0/16"], addresses_only: true }
`

const ALLOWED_BY_A_LINE: [string, Asked][] = [
  ['no_rule', { method: 'CONNECT', host: 'x.test', port: 443 }],
  ['no_rule', { method: 'POST', host: 'x.test', port: 8080 }],
  ['port', { method: 'CONNECT', host: 'a.test', port: 8443 }],
  ['method', { method: 'POST', host: 'r.test', port: 80 }],
  ['method', { method: 'CONNECT', host: 'r.test', port: 443 }],
  ['no_rule', { method: 'CONNECT', host: 'db', port: 5432 }],
  ['literal', { method: 'CONNECT', host: '192.88.98.1', port: 443 }],
  ['literal', { method: 'CONNECT', host: '10.2.3.4', port: 443 }],
  ['literal', { method: 'GET', host: '[fd00::1]', port: 80 }],
  ['literal', { method: 'GET', host: '169.254.169.254', port: 80 }],
  ['localhost', { method: 'GET', host: 'localhost', port: 80, address: '127.0.0.1' }],
  ['address', { method: 'CONNECT', host: 'a.test', port: 443, address: '10.2.3.4' }],
  ['address', { method: 'CONNECT', host: 'a.test', port: 443, address: '::ffff:10.2.3.4' }],
  ['port', { method: 'GET', host: 'c.test', port: 81, address: '10.0.0.1' }],
  ['method', { method: 'POST', host: 'c.test', port: 80, address: '10.0.0.1' }],
  ['address', { method: 'GET', host: 'c.test', port: 80, address: '10.0.0.2' }],
  ['port', { method: 'CONNECT', host: 'p.test', port: 8011, address: '10.0.0.1' }],
  ['address', { method: 'CONNECT', host: 'p.test', port: 443, address: '10.9.0.1' }],
  ['address', { method: 'CONNECT', host: 'p.test', port: 443 }],
]

t.test(
  'with the YAML in it, the configuration allows what it refused before, and nothing beside',
  async t => {
    const { config } = parseConfig(`version: 1\n${YAML}`)
    for (const [reason, asked] of ALLOWED_BY_A_LINE) {
      const name = JSON.stringify(asked)
      const before = refused(config, asked)
      t.equal(before?.reason, reason, name)
      const yaml = before === undefined ? undefined : draftRemedy(before, config)
      t.type(yaml, 'string', name)
      if (yaml === undefined) continue
      const after = amended(YAML, yaml)
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

t.test('there is none where no line that is added would allow it', async t => {
  const { config } = parseConfig(`version: 1\n${YAML}`)
  const target = parseLoggedTarget('connect', { method: 'CONNECT', host: 'a.test', port: 443 })
  const draft = (reason: string, rule?: string, address?: string) =>
    draftRemedy({ reason, rule, target, address, client: undefined }, config)
  for (const reason of ['deny_host', 'deny_address', 'own_address', 'client', 'malformed', 'other']) {
    t.equal(draft(reason), undefined, reason)
  }
  t.equal(draft('address', 'web', '2002:a00:1::1'), undefined, 'a tunnel address is refused always')
  t.equal(draft('address', 'web', 'nonsense'), undefined)
  t.equal(draft('method', 'inner'), undefined, 'a rule with methods has no tunnels')
  t.equal(
    draftRemedy(
      { reason: 'no_rule', rule: undefined, target: undefined, address: undefined, client: undefined },
      config,
    ),
    undefined,
    'no target',
  )
  t.equal(draft('trace_off'), 'trace: { enabled: true }\n')
})

t.test(
  'the rule that holds while there are none is kept, and a client with a list gets the name',
  async t => {
    const target = parseLoggedTarget('connect', { method: 'CONNECT', host: '10.0.0.1', port: 443 })
    const asked = { reason: 'literal', rule: undefined, target, address: undefined, client: 'ci' }
    t.equal(
      draftRemedy(asked, defaultConfig().config),
      'rules:\n  web:\n    hosts: ["*"]\n  https:\n    hosts: [10.0.0.1]\n    ports: [443]\n    addresses: [10.0.0.1/32]\n',
    )
    const listed = parseConfig(
      `version: 1\nrules: { a: { hosts: [a.test] } }\nclients: [{ name: ci, cidr: ["10.0.0.0/8"], rules: [a] }]`,
    )
    t.match(
      draftRemedy(asked, listed.config),
      /^# and in rules of the client ci: https\nrules:\n {2}https:\n/,
    )
  },
)
