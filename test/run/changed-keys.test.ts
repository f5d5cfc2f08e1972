import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { changedKeys, keepReadOnce, restartKeys } from '../../src/run/changed-keys.js'
import { Authority } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'

const config = (yaml: string) => parseConfig(`version: 1\n${yaml}`).config

t.test('names the top-level keys whose value differs', async t => {
  const text = `
mode: observe
clients: [{ name: a, cidr: ["10.0.0.0/8"], rules: [web] }]
rules: { web: { hosts: ["*.a.test", "10.1.2.3"], ports: ["8000-8100"], methods: [GET] } }
deny: { hosts: [b.test], addresses: ["1.2.3.0/24"] }
origins: [{ host: o.test, path: /x, forward: "http://10.0.0.5:80" }]
error_note: Ask.
`
  const before = config(text)
  t.same(changedKeys(before, config(text)), [], 'the same text is the same, whatever it is parsed to')
  t.same(changedKeys(before, config(text.replace('observe', 'enforce'))), ['mode'])
  t.same(changedKeys(before, config(text.replace('*.a.test', '*.c.test'))), ['rules'])
  t.same(changedKeys(before, config(text.replace('8100', '8101').replace('b.test', 'c.test'))), [
    'rules',
    'deny',
  ])
  t.same(changedKeys(before, config(text.replace('/x', '/y'))), ['origins'])
})

t.test('keys that were added or removed are changed ones, named as in the file', async t => {
  t.same(changedKeys(config(''), config('error_note: Ask.\n')), ['error_note'])
  t.same(changedKeys(config('error_note: Ask.\nvia: a\n'), config('')).sort(), ['error_note', 'via'])
  t.same(changedKeys(config(''), config('mode: enforce\n')), [], 'the default, written out')
})

t.test('names the keys that are read only at the start', async t => {
  const before = config('')
  const traced = (path: string, rest = '') => config(`tracing: { otlp: "http://c.test:4318/${path}"${rest} }`)
  t.same(restartKeys(before, before), [])
  t.same(
    restartKeys(
      before,
      config('cache: disk\nrules: {}\nlimits: { header_timeout: 1s }\nlog: { query: include }'),
    ),
    [],
  )
  t.same(restartKeys(before, config('listen: { proxy: ["127.0.0.1:3128"] }')), [], 'written out, the same')
  t.same(
    restartKeys(
      before,
      config('listen: { proxy: ["127.0.0.1:3129"], admin: false }\nworkers: 2\nlog: { format: json }'),
    ),
    ['listen.proxy', 'listen.admin', 'workers', 'log.format'],
  )
  t.same(restartKeys(before, traced('a')), ['tracing.otlp'], 'no key that the file does not have')
  t.same(restartKeys(before, traced('a', ', sample: 0.5')), ['tracing.otlp', 'tracing.sample'])
  t.same(restartKeys(traced('a'), before), ['tracing.otlp'])
  t.same(restartKeys(traced('a'), traced('b')), ['tracing.otlp'])
  t.same(restartKeys(traced('a'), traced('a', ', sample: 0.5')), ['tracing.sample'])
  t.same(restartKeys(traced('a'), traced('a', ', sample: 1')), [])
})

t.test('a process that starts later reads only the others', async t => {
  const start = config('workers: 2\nlog: { format: json }')
  const next = config('listen: { admin: false }\nrules: {}\nlog: { format: pretty, level: warn }')
  const kept = keepReadOnce(start, next)
  t.same(restartKeys(start, kept), [])
  t.same(kept.rules, next.rules)
  t.equal(kept.log.level, 'warn')
  t.throws(() => Object.assign(kept, { mode: 'observe' }), TypeError)
})

t.test('it uses the parts of listen that can change, and traces as the others do', async t => {
  const traced = (name: string) => config(`tracing: { otlp: "http://${name}.test:4318/v1" }`)
  const next = config(
    'listen: { admin: false, admin_hosts: [a.test], proxy_protocol: { from: ["10.0.0.1"] } }',
  )
  for (const [start, other] of [
    [traced('a'), traced('b')],
    [traced('a'), next],
    [config('listen: { socket_mode: "0600" }'), traced('b')],
  ] as const) {
    t.same(restartKeys(start, keepReadOnce(start, other)), [])
    t.not(restartKeys(start, other).length, 0)
  }
  const { listen } = keepReadOnce(config(''), next)
  t.same(listen.adminHosts, ['a.test'])
  t.same(listen.proxyProtocol, next.listen.proxyProtocol)
})

t.test(
  'of listen.tls it keeps the address, and whether clients present certificates',
  { skip: needs('openssl') },
  async t => {
    const ca = Authority.make(t.testdir())
    const { certFile, keyFile } = ca.issue({ san: 'DNS:localhost' })
    const tls = (rest: string) => config(`listen: { tls: { cert: ${certFile}, key: ${keyFile}, ${rest} } }`)
    const before = tls('address: "127.0.0.1:1"')
    t.same(restartKeys(before, config('')), ['listen.tls.address'])
    for (const [start, next] of [
      [before, config('')],
      [config(''), before],
    ] as const) {
      t.same(restartKeys(start, keepReadOnce(start, next)), [])
    }
    t.same(restartKeys(before, tls('address: "127.0.0.1:2"')), ['listen.tls.address'])
    t.same(restartKeys(before, tls(`address: "127.0.0.1:1", client_ca: ${ca.certFile}`)), [
      'listen.tls.client_ca',
    ])
  },
)
