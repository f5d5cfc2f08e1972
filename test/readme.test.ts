import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { jsonSchema } from '../src/cli/schema.js'
import { parseConfig } from '../src/config/load.js'
import { readSourceFiles } from './architecture/source-files.js'
import { REFUSED } from './wire/bypass-table.js'

import { needs } from './kit/processes/command.js'

const root = new URL('../../', import.meta.url)
const readme = readFileSync(new URL('README.md', root), 'utf8')

function blocks(language: string): string[] {
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(
    match => match[1] ?? '',
  )
}

/** A configuration of TLS names files, which other lines of the README make. */
const namesFiles = (yaml: string) => /^ {2}tls:/m.test(yaml)

t.test('every configuration in the README is a valid one', async t => {
  const files = blocks('yaml').filter(text => !namesFiles(text))
  t.ok(files.length >= 4)
  const hash = '$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde'
  const folder = t.testdir({ 'agents.htpasswd': `alice:${hash}\n`, 'admin.htpasswd': `olga:${hash}\n` })
  for (const text of files) t.doesNotThrow(() => parseConfig(text, 'README.md', folder), text)
})

t.test('so are those of TLS, with what the README says to make', { skip: needs('openssl') }, async t => {
  const folder = t.testdir()
  const lines = blocks('sh').flatMap(block => block.match(/^openssl .*$/gm) ?? [])
  t.equal(lines.length, 3)
  for (const line of lines) execFileSync('sh', ['-c', line], { cwd: folder, stdio: 'pipe' })
  const files = blocks('yaml').filter(namesFiles)
  t.equal(files.length, 1)
  for (const text of files) t.same(parseConfig(text, 'sluice.yaml', folder).warnings, [], text)
})

t.test('the table of the README names every key, and none that is not there', async t => {
  const known = new Set(keysOf(jsonSchema(), ''))
  const table = readme.slice(readme.indexOf('## Configuration'), readme.indexOf('## Clients'))
  const named = new Set(
    [...table.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, cell = '']) => cell.match(/[a-z_.<>]+/g) ?? []),
  )
  for (const key of known) t.ok(named.has(key) || hasChild(named, key), key)
  for (const key of named) t.ok(known.has(key) || hasChild(known, key), key)
})

t.test('every npm script that the README names is there', async t => {
  const { scripts } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { scripts: object }
  for (const [, name = ''] of readme.matchAll(/npm run ([a-z:]+)/g)) t.ok(Object.hasOwn(scripts, name), name)
})

t.test('every file that the README links to is there', async t => {
  for (const [, path = ''] of readme.matchAll(/\]\(([a-zA-Z][^):]*)\)/g)) {
    t.ok(existsSync(new URL(path, root)), path)
  }
})

t.test('the table of ways round has a row for each that is tested, and no other', async t => {
  const table = readme.slice(readme.indexOf('## Ways round'), readme.indexOf('## Docker'))
  const rows = [...table.matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)]
    .slice(1)
    .map(([, trick, end]) => `${trick}: ${end}`)
  const source = readFileSync(new URL('test/wire/bypass.test.ts', root), 'utf8')
  const scenes = [...source.matchAll(/t\.test\(\s*'([^']+)'/g)].map(match => match[1])
  const tested = [...REFUSED.map(({ trick, status }) => `${trick}: ${status}`), ...scenes]
  t.ok(rows.length > 20)
  t.same(
    rows.filter(row => !row.startsWith('---')),
    tested,
  )
})

t.test('the tables of the log have each reason to close, and each event', async t => {
  const outcome = readFileSync(new URL('src/outcome.ts', root), 'utf8')
  const [, union = ''] = /type CloseReason =([^;]*?)\n\n/.exec(outcome) ?? []
  const reasons = [...union.matchAll(/'([a-z_]+)'/g)].map(([, name]) => name)
  t.ok(reasons.length > 10)
  const [events = '', closes = ''] = readme
    .slice(readme.indexOf('### Events of the log'), readme.indexOf('### Reasons'))
    .split('Why an exchange ended')
  const names = (table: string) =>
    [...table.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, cell = '']) =>
      [...cell.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name),
    )
  t.same(names(closes).slice(1).sort(), reasons.sort())
  const sources = [...readSourceFiles('src').values()].join('\n')
  for (const name of names(events).slice(1)) t.match(sources, new RegExp(`\\b${name}\\b`))
  for (const [, name = ''] of sources.matchAll(/\bevent: '([a-z_]+)'/g)) {
    if (name !== 'other') t.ok(names(events).includes(name), name)
  }
})

/** Leaf keys of a JSON Schema as the table writes them: `limits.tunnel_idle`, `rules.<name>.hosts`. */
function keysOf(schema: unknown, prefix: string): string[] {
  if (typeof schema !== 'object' || schema === null) return [prefix]
  const { properties, additionalProperties, items, anyOf } = schema as Record<string, unknown>
  // A map that may be written in another way, too.
  const map = Array.isArray(anyOf) ? anyOf.find(form => 'properties' in form) : undefined
  if (map !== undefined && properties === undefined) return keysOf(map, prefix)
  if (typeof items === 'object' && items !== null && 'properties' in items) return keysOf(items, prefix)
  if (typeof properties === 'object' && properties !== null) {
    return Object.entries(properties).flatMap(([name, child]) =>
      keysOf(child, prefix === '' ? name : `${prefix}.${name}`),
    )
  }
  if (typeof additionalProperties === 'object') return keysOf(additionalProperties, `${prefix}.<name>`)
  return [prefix]
}

function hasChild(keys: ReadonlySet<string>, parent: string): boolean {
  return [...keys].some(key => key.startsWith(`${parent}.`))
}
