/**
 * Divides the tests among processes: a start costs more than most files of tests take. Writes an entry of each process
 * to .build/run, named in the order in which they are best started, and what makes `tap` be one test for each file.
 *
 *     node .build/test/runner/groups.js
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compiledFile, sourceFiles } from './compiled.js'
import { importReader } from './imports.js'
import { type Kind, kindOf } from './kinds.js'

/** Compiled to .build/test/run. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const TESTS = join(ROOT, '.build/test/')
const ENTRIES = join(ROOT, '.build/run/')

const KINDS = ['program', 'alone', 'shared', 'pure'] as const satisfies readonly Kind[]

/** How many files a process is given; enough processes are left to keep all processors at work. */
const SIZES: Readonly<Record<Kind, number>> = { program: 5, alone: 1, shared: 48, pure: 120 }

/** A source, relative to the root. */
type Name = string

const names = sourceFiles(ROOT).filter(name => name.endsWith('.test.ts') && !name.startsWith('test/system/'))

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

function byKind(names: readonly Name[]): Map<Kind, Name[]> {
  const closureOf = importReader({ read })
  const kinds = new Map<Kind, Name[]>(KINDS.map(kind => [kind, []]))
  for (const name of names)
    kinds.get(kindOf(closureOf(compiledFile(ROOT, name)), { tests: TESTS, read }))?.push(name)
  return kinds
}

/** Of about the same size, neighbours in different ones: files of one folder take about as long as each other. */
function divide(names: readonly Name[], size: number): Name[][] {
  const count = Math.ceil(names.length / size)
  return Array.from({ length: count }, (_, index) => names.filter((_, at) => at % count === index))
}

function entry(names: readonly Name[]): string {
  const files = Object.fromEntries(names.map(name => [name, compiledFile(ROOT, name)]))
  return `import { runFiles } from '../test/runner/files.js'
import { use } from '../test/node_modules/tap/index.js'

await runFiles(${JSON.stringify(files, undefined, 2)}, { use })
`
}

/** Of files that are no more, what was compiled once would still be found. */
function removeOrphans(): void {
  for (const folder of ['src', 'test']) {
    for (const name of readdirSync(join(ROOT, '.build', folder), { recursive: true, encoding: 'utf8' })) {
      const source = /^(?!node_modules[/\\])(.*?)(?:\.d\.ts|\.js|\.js\.map)$/.exec(name)?.[1]
      if (source === undefined || existsSync(join(ROOT, folder, `${source}.ts`))) continue
      rmSync(join(ROOT, '.build', folder, name))
    }
  }
}

/**
 * The package that tests find as `tap`, nearer than the real one. What it exports changes with the file that is run:
 * an import is a live binding, and no two files run at a time. Without entries it is the real one.
 */
function writeTap(): void {
  const folder = join(TESTS, 'node_modules/tap')
  // It would be found itself.
  rmSync(folder, { recursive: true, force: true })
  const real = relative(folder, fileURLToPath(import.meta.resolve('tap')))
    .split(sep)
    .join('/')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "type": "module", "exports": "./index.js" }\n')
  writeFileSync(
    join(folder, 'index.js'),
    `import current from '${real}'
export * from '${real}'
let test = current
export { test as default }
export function use(next) {
  test = next
}
`,
  )
}

/** A process, and where in the row of all of them it is best started: from 0 to 1. */
interface Group {
  readonly kind: Kind
  readonly title: string
  readonly names: readonly Name[]
  readonly place: number
}

/** What starts programs waits most of the time: it is spread evenly among what computes. */
function groupsOf(kinds: readonly Kind[], files: ReadonlyMap<Kind, readonly Name[]>): Group[] {
  const groups = kinds.flatMap(kind =>
    divide(files.get(kind) ?? [], SIZES[kind]).map((names, index) => {
      const [only = ''] = names
      const own = only.slice('test/'.length, -'.test.ts'.length).replaceAll('/', '-')
      return { kind, title: names.length === 1 ? own : `${index + 1}`, names }
    }),
  )
  return groups
    .sort((a, b) => Number(isLong(b.names)) - Number(isLong(a.names)))
    .map((group, index) => ({ ...group, place: (index + 0.5) / groups.length }))
}

/** Whether one of them has a test that says that it takes long. */
function isLong(names: readonly Name[]): boolean {
  return names.some(name => /\btimeout: [3-9]\d_000\b/.test(read(join(ROOT, name)) ?? ''))
}

removeOrphans()
writeTap()
rmSync(ENTRIES, { recursive: true, force: true })
mkdirSync(ENTRIES)
const files = byKind(names)
const groups = [...groupsOf(['program'], files), ...groupsOf(['alone', 'shared', 'pure'], files)]
groups.sort((a, b) => a.place - b.place)
for (const [index, { kind, title, names }] of groups.entries()) {
  writeFileSync(join(ENTRIES, `${`${index + 1}`.padStart(3, '0')}-${kind}-${title}.js`), entry(names))
}
