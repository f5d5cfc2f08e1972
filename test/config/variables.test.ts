// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
import t from 'tap'
import { type Loaded, parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'
import type { Variables } from '../../src/config/variables.js'

const load = (yaml: string, variables: Variables = {}): Loaded =>
  parseConfig(`version: 1\n${yaml}\n`, 'f', '.', 0, undefined, { variables })

/** The problems as `line:column path: message`. */
function problems(yaml: string, variables: Variables = {}): string[] {
  try {
    load(yaml, variables)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`)
  }
  return []
}

t.test('a value holds what its variables hold, several times and beside other text', async t => {
  const { config } = load('error_note: "ask ${TEAM} in ${ROOM:-#egress} or ${TEAM}"', { TEAM: 'platform' })
  t.equal(config.errorNote, 'ask platform in #egress or platform')
  t.equal(load('via: ${NAME}', { NAME: 'egress' }).config.via, 'egress', 'without quotes')
  t.equal(load("via: '${NAME}'", { NAME: 'egress' }).config.via, 'egress', 'in single quotes')
  t.equal(load('via: >-\n  ${NAME}', { NAME: 'egress' }).config.via, 'egress', 'in a block')
})

t.test('a default stands for a variable that is unset or empty', async t => {
  const via = (variables: Variables) => load('via: ${NAME:-none}', variables).config.via
  t.equal(via({}), 'none')
  t.equal(via({ NAME: '' }), 'none')
  t.equal(via({ NAME: 'a' }), 'a')
  t.equal(load('error_note: "${X:-a:-b $c}"').config.errorNote, 'a:-b $c')
})

t.test('a value is read as the type that its key takes', async t => {
  const { config } = load(
    [
      'workers: ${WORKERS}',
      'connect: { ports: ["${PORT}", "${RANGE}"] }',
      'listen: { admin: "${ADMIN}", proxy: ["${HOST}:${PORT}"] }',
      'limits: { tunnel_idle: "${IDLE}", header_bytes: "${SIZE}", header_fields: "${FIELDS}" }',
      'clients: [{ name: "${N}", unix: "${TRUE}" }]',
      'trace: { enabled: "${TRUE}" }',
      'log:\n  level: ${LEVEL:-warn}',
    ].join('\n'),
    {
      WORKERS: '2',
      PORT: '8443',
      RANGE: '1-9',
      ADMIN: 'false',
      HOST: '127.0.0.1',
      IDLE: '5m',
      SIZE: '32KiB',
      FIELDS: '200',
      N: '123',
      TRUE: 'true',
    },
  )
  t.match(config, {
    workers: 2,
    connect: {
      ports: [
        { first: 1, last: 9 },
        { first: 8443, last: 8443 },
      ],
    },
    listen: { admin: false, proxy: [{ host: '127.0.0.1', port: 8443 }] },
    limits: { tunnelIdleMs: 300_000, headerBytes: 32_768, headerFields: 200 },
    clients: [{ name: '123', unix: true }],
    trace: { enabled: true },
    log: { level: 'warn' },
  })
  t.match(load('tracing: { otlp: "http://127.0.0.1/v1", sample: "${S}" }', { S: '0.25' }).config.tracing, {
    sample: 0.25,
  })
})

t.test('a number stays text where a key takes text', async t => {
  t.equal(load('error_note: "${N}"', { N: '404' }).config.errorNote, '404')
  t.equal(load('error_note: "${N}"', { N: 'true' }).config.errorNote, 'true')
  t.ok(load('rules: { a: { hosts: ["${H}"] } }', { H: '10.0.0.1' }))
})

t.test('$${ is the two characters, and a $ before anything else is itself', async t => {
  const { config } = load('error_note: "$${HOME} $HOME $$ $ {a} $$HOME $$${X}"')
  t.equal(config.errorNote, '${HOME} $HOME $$ $ {a} $$HOME $${X}')
})

t.test('keys are not read', async t => {
  t.same(problems('${A}: 1', { A: 'via' }), [
    '2:1 ["${A}"]: unknown key "${A}"; variables are read in values, and not in keys',
  ])
  t.match(problems('rules: { "${A}": { hosts: [a.b] } }', { A: 'web' }), [
    /^2:10 rules\["\$\{A\}"\]: expected a name .*; variables are read in values, and not in keys$/,
  ])
})

t.test('a variable that is not set is one problem, at its own place', async t => {
  const unset = (name: string) =>
    `the environment variable ${name} is not set, and \${${name}} has no default; write one as in \${${name}:-default}`
  t.same(problems('via: ${NAME}'), [`2:6 via: ${unset('NAME')}`])
  t.same(problems('listen:\n  proxy: ["${HOST}:${PORT}"]', { HOST: '::1' }), [
    `3:20 listen.proxy[0]: ${unset('PORT')}`,
  ])
  t.same(problems('error_note: >\n  two lines\n  ${A} and ${A}'), [`4:3 error_note: ${unset('A')}`])
  t.same(problems('workers: ${toString}'), [`2:10 workers: ${unset('toString')}`])
  t.same(problems('clients: [{ name: "${A}", unix: true }, { name: "${B}", unix: true }]'), [
    `2:20 clients[0].name: ${unset('A')}`,
    `2:50 clients[1].name: ${unset('B')}`,
  ])
})

t.test('what is no reference is a problem', async t => {
  const expected = 'expected ${NAME} or ${NAME:-default}; $${ is the two characters themselves'
  for (const written of ['${}', '${1A}', '${A-b}', '${A:b}', '${A B}', '${ A}', '${A:?b}']) {
    t.same(problems(`error_note: "${written}"`, { A: 'a' }), [`2:14 error_note: ${expected}`], written)
  }
  t.same(problems('error_note: "a ${A"'), [`2:16 error_note: no } follows this \${; ${expected}`])
  t.same(problems('error_note: "${A:-${B}}"'), [
    `2:14 error_note: a default cannot name a variable; ${expected}`,
  ])
})

t.test('a list or a map in one line needs quotes, and says so', async t => {
  for (const yaml of ['listen: { proxy: [${A}] }', 'listen: { admin: ${A} }']) {
    const found = problems(yaml, { A: '127.0.0.1:1' })
    t.equal(found.length, 1, yaml)
    t.match(found[0], /within \[ \] and \{ \} a value that names a variable goes in quotes/, yaml)
  }
})

t.test('messages name the variable, and what it held', async t => {
  t.same(problems('workers: ${N:-1}', { N: 'many' }), [
    '2:10 workers: expected a whole number from 1 to 256, or auto, found "many" (from ${N})',
  ])
  t.same(problems('limits: { tunnel_idle: "${N}" }', { N: '30' }), [
    '2:24 limits.tunnel_idle: expected a duration with its unit, such as 30s or 30ms, found 30 (from ${N})',
  ])
  t.same(problems('listen: { proxy: ["${H}:1"] }', { H: 'proxy' }), [
    '2:19 listen.proxy[0]: expected an address such as "127.0.0.1:3128" or "[::1]:3128", found "proxy:1", whose host is neither an IP address nor localhost (from ${H})',
  ])
})

t.test(
  'a number with leading zeros is decimal, as in the file itself (YAML 1.2, section 10.3.2)',
  async t => {
    t.equal(load('workers: ${OCT}', { OCT: '010' }).config.workers, 10)
    t.equal(load('workers: 010').config.workers, 10)
  },
)

t.test('no message shows a value that may be a secret', async t => {
  const secret = 'hunter2'
  for (const [yaml, variables] of [
    ['parent: { url: "${URL}" }', { URL: `http://me:${secret}@proxy:8080` }],
    ['parent: { url: "${URL}" }', { URL: `me:${secret}@proxy` }],
    ['parent: { url: "http://me:${PW}@proxy" }', { PW: secret }],
    ['parent: { url: "ftp://${PROXY_PASSWORD}" }', { PROXY_PASSWORD: secret }],
    ['cache: { store: redis, url: "${URL}" }', { URL: `redis://:${secret}@h` }],
    ['cache: { store: redis, url: "${URL}" }', { URL: `:${secret}@h` }],
    ['origins: [{ path: /, forward: "${URL}" }]', { URL: `http://a:${secret}@b/c` }],
    ['tracing: { otlp: "${URL}" }', { URL: `http://a:${secret}@b/c` }],
    ['tracing: { otlp: "${URL}" }', { URL: `a:${secret}@b/c` }],
    ['workers: ${API_TOKEN}', { API_TOKEN: secret }],
    ['log: { level: "${SECRET}" }', { SECRET: secret }],
    ['via: "${KEY}"', { KEY: `a b ${secret}` }],
    ['rules: { a: { hosts: ["${PASS}"] } }', { PASS: `.${secret}` }],
    ['rules: { a: { hosts: ["${PASS}"] } }', { PASS: `${secret}/x` }],
    ['clients: [{ name: a, unix: true, rules: ["${PASS}"] }]', { PASS: secret }],
    ['clients: [{ name: a, basic: { htpasswd_file: "${PASSWORD}" } }]', { PASSWORD: secret }],
    ['dns: { timeout: "${TOKEN}" }', { TOKEN: '1234567' }],
    ['parent: { url: ["http://a", "${TOKEN}"] }', { TOKEN: secret }],
    ['origins: [{ path: /, forward: ["${TOKEN}"] }]', { TOKEN: secret }],
    ['origins: [{ path: /, host: ["${TOKEN}"], forward: "http://a" }]', { TOKEN: `${secret}:1` }],
    ['cache: { store: redis, url: ["redis://a", "${TOKEN}"] }', { TOKEN: secret }],
    ['include: ["${TOKEN}"]', { TOKEN: `http://${secret}` }],
    ['deny: { hosts_file: "${TOKEN}" }', { TOKEN: `http://${secret}` }],
  ] as const) {
    const found = problems(yaml, variables)
    t.equal(found.length, 1, yaml)
    t.notMatch(found.join(), new RegExp(`${secret}|1234567`), yaml)
    t.match(found.join(), /\(from \$\{\w+\}\)$/, yaml)
  }
})

t.test('the hash covers what the variables hold, and that alone where none is named', async t => {
  const yaml = 'via: ${NAME:-a}'
  t.not(load(yaml, { NAME: 'a' }).hash, load(yaml, { NAME: 'b' }).hash)
  t.equal(load(yaml, { NAME: 'a' }).hash, load(yaml, { NAME: 'a', OTHER: 'b' }).hash)
  t.equal(load(yaml, { NAME: 'a' }).hash, load(yaml).hash)
  t.equal(load('error_note: "$${A}"', { A: '1' }).hash, load('error_note: "$${A}"', { A: '2' }).hash)
})

t.test('variables that stand for more than 16 MiB are refused', async t => {
  const items = Array.from({ length: 17 }, () => '"${A}"').join()
  t.equal(
    problems(`rules: { a: { hosts: [${items}] } }`, { A: 'a'.repeat(1 << 20) }).at(-1),
    '2:135 rules.a.hosts[16]: variables stand for more than 16777216 characters',
  )
})

t.test('an alias of a value that names a variable is that value', async t => {
  const { config } = load('via: &name ${NAME}\nerror_note: *name', { NAME: 'egress' })
  t.equal(config.errorNote, 'egress')
})
