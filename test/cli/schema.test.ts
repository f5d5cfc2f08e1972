import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import yargs from 'yargs'
import * as z from 'zod'
import { onDemand } from '../../src/cli/command.js'
import { includedJsonSchema, jsonSchema, schemaCommand, withVariables } from '../../src/cli/schema.js'

t.test('prints the JSON Schema on stdout, nothing on stderr, exit 0', async t => {
  const written: string[] = []
  const codes: number[] = []
  const io = {
    stdout: (text: string) => void written.push(text),
    stderr: () => t.fail('nothing to say'),
    color: false,
  }
  const command = schemaCommand(io, code => codes.push(code))
  await yargs(['schema'])
    .command(onDemand('schema', '', async () => command, 'sluice'))
    .exitProcess(false)
    .parseAsync()
  t.same(codes, [0])
  t.ok(written.join('').endsWith('}\n'))
  t.same(JSON.parse(written.join('')), withVariables(jsonSchema()))
})

const folder = new URL('../../../config/', import.meta.url)
const accepts = (value: unknown) => validator.safeParse(value).success
/** Built from the JSON Schema alone, as a stranger's validator would be. */
const validatorOf = (schema: object) => z.fromJSONSchema(JSON.parse(JSON.stringify(schema, withProperties)))
const validator = validatorOf(withVariables(jsonSchema()))

/** This validator knows no `required` without the properties, and takes each key that one of several schemas takes. */
function withProperties(_key: string, node: unknown): unknown {
  if (typeof node !== 'object' || node === null || !('properties' in node)) return node
  const properties = Object.fromEntries(Object.keys(node.properties as object).map(key => [key, {}]))
  const whole = (branch: object) =>
    Object.keys(branch).join() === 'required'
      ? { type: 'object', properties, additionalProperties: false, ...branch }
      : branch
  const words = Object.entries(node).map(([word, value]) => [
    word,
    word === 'anyOf' || word === 'oneOf' ? (value as object[]).map(whole) : value,
  ])
  return Object.fromEntries(words)
}

t.test('is JSON Schema 2020-12, and nothing that JSON cannot hold', t => {
  const schema = jsonSchema()
  t.equal(schema['$schema'], 'https://json-schema.org/draft/2020-12/schema')
  t.same(schema['required'], ['version'])
  t.match(schema['$id'], /^[a-z]+:\S+$/)
  t.same(JSON.parse(JSON.stringify(schema)), schema)
  t.end()
})

t.test('accepts default.yaml and the examples', t => {
  for (const file of [
    'default.yaml',
    ...readdirSync(new URL('examples/', folder)).map(f =>
      f.endsWith('.yaml') ? `examples/${f}` : `examples/${f}/sluice.yaml`,
    ),
  ]) {
    t.ok(accepts(parse(readFileSync(new URL(file, folder), 'utf8'))), file)
  }
  t.ok(accepts({ version: 1 }))
  t.ok(
    accepts({
      version: 1,
      listen: {
        proxy: ['unix:/run/a.sock', 'systemd', 'systemd:a', '[::1]:1'],
        admin: 'unix:/run/b.sock',
        socket_mode: '0600',
        proxy_protocol: { from: ['10.0.0.1'] },
      },
      clients: [{ name: 'a', unix: true }],
    }),
  )
  const admin = { address: '0.0.0.0:1', cidr: ['::1'], basic: { htpasswd_file: 'a' }, read_only: true }
  t.ok(accepts({ version: 1, listen: { admin } }))
  t.ok(accepts({ version: 1, listen: { admin: false } }))
  t.notOk(accepts({ version: 1, listen: { admin: { ...admin, port: 1 } } }))
  t.ok(
    accepts({
      version: 1,
      methods: { extra: ['PROPFIND'] },
      rules: { web: { hosts: ['*'], methods: ['GET', 'PROPFIND', 'CONNECTS'] } },
    }),
  )
  t.end()
})

t.test('rejects what the loader would reject by shape', t => {
  for (const bad of [
    {},
    { version: 2 },
    { version: 1, conect: {} },
    { version: 1, listen: { tls: {} } },
    { version: 1, listen: { admin: true } },
    { version: 1, workers: 0 },
    { version: 1, workers: 'all' },
    { version: 1, listen: { proxy: [] } },
    { version: 1, listen: { proxy: ['unix:relative'] } },
    { version: 1, listen: { proxy: ['systemd:'] } },
    { version: 1, listen: { proxy: ['systemd:a:b'] } },
    { version: 1, listen: { tls: { address: 'unix:/a', cert: 'a', key: 'b' } } },
    { version: 1, listen: { socket_mode: 660 } },
    { version: 1, listen: { proxy_protocol: {} } },
    { version: 1, clients: [{ name: 'a', unix: false }] },
    { version: 1, connect: { ports: [0] } },
    { version: 1, connect: { ports: ['8000-'] } },
    { version: 1, rules: { web: {} } },
    { version: 1, rules: { web: { hosts: [] } } },
    { version: 1, rules: { web: { hosts: ['*'], methods: ['CONNECT'] } } },
    { version: 1, rules: { web: { hosts: ['*'], methods: ['A B'] } } },
    { version: 1, methods: { extra: ['A B'] } },
    { version: 1, trace: { exclude: ['a:'] } },
    { version: 1, rules: { web: { hosts: ['*'], zone: 1 } } },
    { version: 1, clients: [{ cidr: ['::1'] }] },
    { version: 1, clients: [{ name: 'A', cidr: ['::1'] }] },
    { version: 1, clients: [{ name: 'a', cidr: ['::1'], rules: 'some' }] },
    { version: 1, dns: { timeout: 3 } },
    { version: 1, dns: { timeout: '3' } },
    { version: 1, limits: { header_bytes: '16KB' } },
    { version: 1, limits: { header_fields: 9 } },
    { version: 1, log: { level: 'loud' } },
    { version: 1, origins: [{ forward: 'http://a' }] },
    { version: 1, origins: [{ path: 'v1', forward: 'http://a' }] },
    { version: 1, origins: [{ path: '/', forward: 'ftp://a' }] },
    { version: 1, origins: [{ path: '/', forward: [] }] },
    { version: 1, origins: [{ path: '/', forward: 'http://a', methods: ['CONNECT'] }] },
    { version: 1, origins: [{ path: '/', store: { size: 1 } }] },
  ]) {
    t.notOk(accepts(bad), JSON.stringify(bad))
  }
  t.end()
})

t.test(
  'every map refuses unknown keys, and every key but version has a description or keys of its own',
  t => {
    const visit = (node: unknown, at: string): void => {
      if (typeof node !== 'object' || node === null) return
      const { properties, additionalProperties } = node as Record<string, unknown>
      if (properties !== undefined) {
        t.equal(additionalProperties, false, `${at} is closed`)
        for (const [key, below] of Object.entries(properties as Record<string, Record<string, unknown>>)) {
          t.ok(
            below['description'] !== undefined || below['properties'] !== undefined,
            `${at}.${key} is described`,
          )
        }
      }
      for (const [word, below] of Object.entries(node)) if (word !== 'default') visit(below, `${at}.${word}`)
    }
    visit(jsonSchema(), '')
    t.end()
  },
)

t.test('a rule has hosts, hosts_file or both', async t => {
  const rule = (keys: object) => accepts({ version: 1, rules: { web: keys } })
  t.ok(rule({ hosts_file: 'a.txt' }))
  t.ok(rule({ hosts: ['a.b'], hosts_file: ['a.txt'], ports: [1] }))
  t.notOk(rule({ hosts_file: [] }))
  t.notOk(rule({ ports: [1] }))
})

t.test('a variable is allowed in place of every scalar, and of nothing else', async t => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
  const variable = '${A:-1}'
  t.ok(
    accepts({
      version: 1,
      workers: variable,
      mode: variable,
      listen: { proxy: [variable], admin: variable, socket_mode: variable },
      connect: { ports: [variable] },
      limits: { tunnel_idle: variable, header_bytes: variable, header_fields: variable },
      trace: { enabled: variable },
      clients: [{ name: variable, unix: variable, rules: variable }],
      error_note: variable,
    }),
  )
  for (const bad of [
    { version: 1, workers: '$A' },
    // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
    { version: 1, mode: '${1}' },
    { version: 1, limits: variable },
    { version: 1, rules: { '${A}': { hosts: ['*'] } } },
  ]) {
    t.notOk(accepts(bad), JSON.stringify(bad))
  }
})

t.test('what is said of a key is said of its variables too', async t => {
  const { properties } = withVariables(jsonSchema()) as {
    properties: Record<string, Record<string, unknown>>
  }
  const { anyOf, ...about } = properties['via'] ?? {}
  t.match(about, { description: String, title: String })
  t.match(anyOf, [{ type: 'string', description: undefined }, { $ref: String }])
})

t.test('--included is the schema of what include names', async t => {
  const included = validatorOf(includedJsonSchema())
  t.ok(
    included.safeParse({ rules: { a: { hosts: ['a.b'] } }, deny: { hosts: [] }, include: ['a.yaml'] })
      .success,
  )
  t.ok(included.safeParse({ version: 1, clients: [{ name: 'a', unix: true }] }).success)
  t.notOk(included.safeParse({ listen: {} }).success)
  t.notOk(included.safeParse({ rules: { a: {} } }).success)
})

t.test('every default and every example is a value that it accepts itself', t => {
  let examples = 0
  const visit = (node: unknown, at: string): void => {
    if (typeof node !== 'object' || node === null) return
    const { default: absent, examples: shown, ...rest } = node as Record<string, unknown>
    const values = [...(absent === undefined ? [] : [absent]), ...(Array.isArray(shown) ? shown : [])]
    if (values.length > 0 && !Array.isArray(node)) {
      const own = z.fromJSONSchema(JSON.parse(JSON.stringify(rest), withProperties))
      for (const value of values) t.ok(own.safeParse(value).success, `${at}: ${JSON.stringify(value)}`)
      examples += Array.isArray(shown) ? shown.length : 0
    }
    for (const [word, below] of Object.entries(rest)) visit(below, `${at}.${word}`)
  }
  visit(jsonSchema(), '')
  t.ok(examples > 20)
  t.end()
})

t.test('has the defaults', t => {
  const text = JSON.stringify(jsonSchema())
  for (const value of [
    '"default":"3s"',
    '"default":["127.0.0.1:3128"]',
    '"default":"keep"',
    '"default":"256MiB"',
    '"default":{"web":{"hosts":["*"]}}',
  ]) {
    t.ok(text.includes(value), value)
  }
  t.end()
})
