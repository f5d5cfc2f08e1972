import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import t from 'tap'
import { jsonSchema } from '../src/cli/schema.js'
import { parseConfig } from '../src/config/load.js'
import { EXIT } from '../src/run/io.js'
import { readSourceFiles } from './architecture/source-files.js'
import { needs } from './kit/processes/command.js'
import { codeBlocks, headingsOf, readmePaths, readReadme, readSection, ROOT } from './kit/readmes.js'
import { REFUSED } from './wire/bypass-table.js'

const paths = readmePaths()
const blocks = (language: string): string[] => paths.flatMap(path => codeBlocks(readReadme(path), language))

/** A configuration of TLS names files, which other lines of the README make. */
const namesFiles = (yaml: string) => /^ {2}tls:/m.test(yaml)

t.test('there is a README for each part that users or readers of the source look for', async t => {
  for (const path of [
    'README.md',
    'config/README.md',
    'docker/README.md',
    'src/README.md',
    'test/README.md',
  ]) {
    t.ok(paths.includes(path), path)
  }
})

t.test('every configuration in a README is a valid one', async t => {
  const files = blocks('yaml').filter(text => !namesFiles(text))
  t.ok(files.length >= 15)
  const hash = '$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde'
  const folder = t.testdir({
    'agents.htpasswd': `alice:${hash}\n`,
    'admin.htpasswd': `olga:${hash}\n`,
    rules: { 'packages.yaml': 'rules: {}\n' },
    'team.yaml': 'deny: {}\n',
  })
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

t.test('the table of keys names every key, and none that is not there', async t => {
  const known = new Set(keysOf(jsonSchema(), ''))
  const named = new Set(
    [...readSection('config/README.md', 'Keys').matchAll(/^\| (`[^|]+) \|/gm)].flatMap(
      ([, cell = '']) => cell.match(/[a-z_.<>]+/g) ?? [],
    ),
  )
  for (const key of known) t.ok(named.has(key) || hasChild(named, key), key)
  for (const key of named) t.ok(known.has(key) || hasChild(known, key), key)
})

t.test('the table of exit codes has each that the program ends with', async t => {
  const codes = [...readSection('src/cli/README.md', 'Exit codes').matchAll(/^\| (\d+) \|/gm)].map(
    ([, code]) => Number(code),
  )
  for (const code of Object.values(EXIT)) t.ok(codes.includes(code), `${code}`)
  t.same(
    codes,
    codes.toSorted((a, b) => a - b),
  )
})

t.test('every npm script that a README names is there', async t => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object }
  for (const path of paths) {
    for (const [, name = ''] of readReadme(path).matchAll(/npm run ([a-z:]+)/g)) {
      t.ok(Object.hasOwn(scripts, name), `${path}: ${name}`)
    }
  }
})

t.test('every link of a README leads to a file that is there, and to a heading of it', async t => {
  for (const path of paths) {
    for (const [, link = ''] of readReadme(path).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? path : posix.join(posix.dirname(path), file)
      if (!existsSync(join(ROOT, target))) t.fail(`${path}: ${link}`)
      else if (anchor !== undefined) {
        const anchors = headingsOf(readReadme(target)).map(heading => heading.anchor)
        t.ok(anchors.includes(anchor), `${path}: ${link}`)
      }
    }
  }
})

t.test('every README can be found from the first one', async t => {
  const found = new Set(['README.md'])
  for (const path of found) {
    for (const [, link = ''] of readReadme(path).matchAll(/\]\(([^)\s#]*README\.md)/g)) {
      found.add(posix.join(posix.dirname(path), link))
    }
  }
  t.same([...found].sort(), [...paths].sort())
})

t.test('a README with more than eight headings begins with a table of contents', async t => {
  for (const path of paths) {
    const headings = headingsOf(readReadme(path))
    if (headings.length <= 8) continue
    const [contents, ...sections] = headings.filter(({ level }) => level === 2)
    t.equal(contents?.text, 'Contents', path)
    if (contents === undefined) continue
    t.same(
      [...readSection(path, 'Contents').matchAll(/^- \[(.*)\]\(#(.*)\)$/gm)].map(([, text, anchor]) => ({
        text,
        anchor,
      })),
      sections.map(({ text, anchor }) => ({ text: text.replaceAll('`', ''), anchor })),
      path,
    )
  }
})

t.test('the README of the project is one that can be read in one go', async t => {
  t.ok(readReadme('README.md').split('\n').length <= 280)
})

t.test('the table of bypass attempts has a row for each that is tested, and no other', async t => {
  const rows = [...readReadme('test/wire/README.md').matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)]
    .slice(1)
    .map(([, trick, end]) => `${trick}: ${end}`)
  const source = readFileSync(join(ROOT, 'test/wire/bypass.test.ts'), 'utf8')
  const scenes = [...source.matchAll(/t\.test\(\s*'([^']+)'/g)].map(match => match[1])
  const tested = [...REFUSED.map(({ trick, status }) => `${trick}: ${status}`), ...scenes]
  t.ok(rows.length > 20)
  t.same(
    rows.filter(row => !row.startsWith('---')),
    tested,
  )
})

t.test('the tables of the log have each reason to close, and each event', async t => {
  const outcome = readFileSync(join(ROOT, 'src/outcome.ts'), 'utf8')
  const [, union = ''] = /type CloseReason =(.*?)\n\n/s.exec(outcome) ?? []
  const reasons = [...union.matchAll(/'([a-z_]+)'/g)].map(([, name]) => name)
  t.ok(reasons.length > 10)
  const [events = '', closes = ''] = readSection('src/observe/README.md', 'Events of the log').split(
    'Why an exchange ended',
  )
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
  // A map that can also be written in another form.
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
