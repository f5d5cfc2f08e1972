import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { jsonSchema } from '../../src/cli/schema.js'
import { parseConfig } from '../../src/config/load.js'

const folder = new URL('../../../config/', import.meta.url)
const read = (file: string) => readFileSync(new URL(file, folder), 'utf8')

/** Every key that a JSON Schema knows, at any depth; the names of map entries are not keys. */
function keysOf(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  if (Array.isArray(schema)) return schema.flatMap(keysOf)
  return Object.entries(schema).flatMap(([word, value]) => {
    if (word === 'default') return []
    const own = word === 'properties' ? Object.keys(value) : []
    return [...own, ...keysOf(value)]
  })
}

t.test('default.yaml says exactly what an absent key means', t => {
  const { config, warnings } = parseConfig(read('default.yaml'), 'default.yaml')
  t.same(warnings, [])
  t.strictSame(config, parseConfig('version: 1').config)
  t.end()
})

t.test('default.yaml holds every key, those without a default as comments', t => {
  const text = read('default.yaml')
  const keys = new Set(keysOf(jsonSchema()))
  t.ok(keys.size > 35, `${keys.size} keys`)
  for (const key of keys) t.match(text, new RegExp(`^ *(#\\s+)*(- )?${key}:`, 'm'), key)
  t.end()
})

t.test('what default.yaml has commented out is valid once it is not', t => {
  const text = read('default.yaml').replace(/^( *)# ((?:via|ports|methods): )/gm, '$1$2')
  const { config } = parseConfig(text, 'default.yaml')
  t.equal(config.via, 'egress-1')
  t.match(config.rules.get('web'), {
    methods: ['GET', 'HEAD'],
    ports: [{ first: 443 }, { first: 8000, last: 8100 }],
  })
  t.end()
})

t.test('every example loads without a problem or a warning', t => {
  const files = readdirSync(new URL('examples/', folder))
  t.same(files.sort(), ['agents.yaml', 'ci.yaml', 'internal.yaml', 'packages.yaml', 'several-files'])
  for (const file of files.map(name => (name.endsWith('.yaml') ? name : `${name}/sluice.yaml`))) {
    const at = new URL(`examples/${file}`, folder)
    t.same(parseConfig(readFileSync(at, 'utf8'), file, fileURLToPath(new URL('.', at))).warnings, [], file)
  }
  t.end()
})

t.test('the examples mean what they say', t => {
  const agents = parseConfig(read('examples/agents.yaml')).config
  t.same(agents.forward.ports, [])
  t.notOk([...agents.rules.values()].some(rule => rule.hosts.some(host => host.kind === 'any')))
  const ci = parseConfig(read('examples/ci.yaml')).config
  t.same(
    ci.clients.map(client => client.name),
    ['release', 'ci'],
  )
  const internal = parseConfig(read('examples/internal.yaml')).config
  t.match(internal.rules.get('artifacts'), {
    addresses: [{ text: '10.4.2.17/32' }],
    addressesOnly: true,
    methods: ['GET', 'HEAD'],
  })
  const several = fileURLToPath(new URL('examples/several-files', folder))
  const { config: merged, files } = parseConfig(read('examples/several-files/sluice.yaml'), 'f', several)
  t.same([...merged.rules.keys()], ['source', 'packages'])
  t.equal(files.hosts.get('packages.txt')?.patterns.length, 3)
  const packages = parseConfig(read('examples/packages.yaml')).config
  t.match(packages.cache, { store: 'disk', sharedBy: 'client' })
  for (const origin of packages.origins) {
    t.match(origin, { kind: 'forward', hostHeader: 'rewrite', methods: ['GET', 'HEAD'] })
    t.ok(origin.hosts.every(host => host.kind === 'exact'))
  }
  t.end()
})
