/**
 * `include`: rules, denials and clients from other files, merged into the configuration before it is checked as a whole.
 * Each value keeps its place in its own file.
 *
 * Rules are merged into one map, in which no name may appear twice; the lists of `deny` are concatenated; the clients of an
 * included file follow those of the file that includes it, in the order in which files are included.
 */
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { realPathOf } from './directories.js'
import { type ConfigSources, FileReader } from './file-reader.js'
import { nearest } from './nearest.js'
import { ConfigError, type Path, quoteKey } from './problem.js'
import { includedFiles } from './schema.js'
import type { Secrets } from './secrets.js'
import { describeExpanded, type Variables } from './variables.js'
import { decodeUtf8, faultsOfIssues, showValue, type Texts } from './yaml-file.js'
import { collection, type Fault, holdsMap, type Located, mapScalars, readYaml, valueAt } from './yaml-tree.js'

const INCLUDED = { noun: 'an included file', beginning: '`rules:`, `deny:`, `clients:` or `include:`' }
const KEYS = ['version', 'include', 'clients', 'rules', 'deny']
/** The most included files: each is opened and watched. */
const MAX_FILES = 1000
/** The most characters of all included files. */
const MAX_CHARACTERS = 16 * 1024 * 1024

export interface IncludeOptions {
  /** The configuration file, as messages call it. */
  readonly name: string
  /** Where its relative paths start. */
  readonly folder: string
  /** Its absolute path; undefined if it is not a file. */
  readonly path: string | undefined
  /** Gets the text of each included file. */
  readonly texts: Texts
  /** Gets what is read. */
  readonly sources: ConfigSources
  readonly variables: Variables | undefined
  readonly secrets: Secrets
}

/** A file whose `include` is followed. */
interface IncludingFile {
  readonly root: Located
  /** Where its relative paths start. */
  readonly folder: string
  /** The same folder relative to that of the configuration file; empty for the configuration file. */
  readonly prefix: string
  /** Itself and the files that lead to it, the configuration file first. */
  readonly chain: readonly { readonly path: string; readonly name: string }[]
}

export interface MergedConfig {
  /** The configuration with all that it includes. */
  readonly root: Located
  /** Problems of the included files themselves. */
  readonly faults: readonly Fault[]
  /** False if a file could not be read: another file may refer to its content. */
  readonly isComplete: boolean
}

export function mergeIncluded(root: Located, options: IncludeOptions): MergedConfig {
  if (!root.children.has('include')) return { root, faults: [], isComplete: true }
  const { name, folder, path } = options
  const merger = new Merger(root, options)
  const chain = path === undefined ? [] : [{ path: realPathOf(path), name }]
  merger.follow({ root, folder, prefix: '', chain })
  return { root: merger.root, faults: merger.faults, isComplete: merger.isComplete }
}

class Merger {
  readonly faults: Fault[] = []
  /** Whether all files could be read. */
  isComplete = true
  readonly #options: IncludeOptions
  /** The offset at which each file is first included, by path. */
  readonly #included = new Map<string, number>()
  #root: Located
  #characters = 0

  constructor(root: Located, options: IncludeOptions) {
    this.#root = root
    this.#options = options
  }

  /** The configuration, with what has been merged into it. */
  get root(): Located {
    return this.#root
  }

  /** Merges the files that a file includes, and those that they include. */
  follow(file: IncludingFile): void {
    for (const [position, entry] of file.root.children.get('include')?.children ?? []) {
      const { value, start, expansion } = entry
      // The schema reports what is not a path.
      if (!includedFiles.safeParse([value]).success) continue
      const path: Path = ['include', position]
      const found = this.#include(file, String(value), path)
      if (found === undefined) continue
      const message = expansion === undefined ? found : describeExpanded(found, expansion)
      this.faults.push({ offset: start, path, message })
    }
  }

  /** @returns the problem with the entry, if it is not reported yet */
  #include(file: IncludingFile, written: string, at: Path): string | undefined {
    const { sources, texts, variables, secrets } = this.#options
    const offset = valueAt(file.root, ...at)?.start ?? 0
    const name = within(file.folder, written)
    const path = realPathOf(resolve(name))
    const circle = file.chain.findIndex(each => each.path === path)
    if (circle !== -1) {
      const names = [...file.chain.slice(circle).map(each => each.name), name]
      return `files include each other in a circle: ${names.join(' -> ')}`
    }
    const before = this.#included.get(path)
    if (before !== undefined) return `${written} is included already, at ${this.#placeText(before)}`
    if (this.#included.size === MAX_FILES) return `more than ${MAX_FILES} files are included`
    this.#included.set(path, offset)
    const wasComplete = this.isComplete
    this.isComplete = false

    const reader = new FileReader(file.root, file.folder, sources, 'the file that names it')
    const read = reader.read(at, written)
    if (read === undefined) return reader.faults[0]?.message
    let text: string
    try {
      text = decodeUtf8(read.bytes, name)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return `${name}: ${error.problems[0]?.message}`
    }
    this.#characters += text.length
    if (this.#characters > MAX_CHARACTERS) return `included files have more than ${MAX_CHARACTERS} characters`
    const base = texts.add(text, name)
    const { root, faults } = readYaml(text, { kind: INCLUDED, variables, secrets, base })
    this.faults.push(...faults)
    if (root === undefined) return undefined
    const problems = checkKeys(root)
    this.faults.push(...problems)
    this.isComplete = wasComplete
    const prefix = within(file.prefix, dirname(written))
    this.#merge(withPrefix(root, prefix))
    this.follow({ root, folder: dirname(name), prefix, chain: [...file.chain, { path, name }] })
    return undefined
  }

  #merge({ children: added }: Located): void {
    const top = new Map(this.#root.children)
    for (const key of ['rules', 'deny', 'clients'] as const) {
      const node = added.get(key)
      if (node === undefined) continue
      const before = top.get(key)
      top.set(
        key,
        key === 'clients' ? this.#joinLists(before, node, [key]) : this.#joinMaps(before, node, key),
      )
    }
    this.#root = { ...this.#root, ...collection(top, false) }
  }

  #joinMaps(before: Located | undefined, added: Located, key: 'rules' | 'deny'): Located {
    // The schema reports a value of another type.
    if (before !== undefined && !holdsMap(before)) return before
    if (!holdsMap(added)) return this.#only(before, added, [key], 'a map')
    const children = new Map(before?.children)
    for (const [step, node] of added.children) {
      const known = children.get(step)
      if (key === 'deny') children.set(step, this.#joinLists(known, node, [key, step]))
      else if (known === undefined) children.set(step, node)
      else {
        const message = `the rule ${quoteKey(String(step))} is at ${this.#placeText(known.key)} already; no two have one name`
        this.faults.push({ offset: node.key, path: [key, step], message })
      }
    }
    return { ...(before ?? added), ...collection(children, false) }
  }

  #joinLists(before: Located | undefined, added: Located, path: Path): Located {
    if (before === undefined && !isList(added)) return added
    const items = itemsOf(added, path)
    if (items === undefined) return this.#only(before, added, path, 'a list')
    const own = before === undefined ? [] : itemsOf(before, path)
    if (before !== undefined && own === undefined) return before
    const children = new Map([...(own ?? []), ...items].map((item, index) => [index, item]))
    return { ...(before ?? added), ...collection(children, true) }
  }

  /** The first of two values that cannot be merged; the second is then a problem. */
  #only(before: Located | undefined, added: Located, path: Path, expected: string): Located {
    if (before === undefined) return added
    const message = `expected ${expected}, found ${showValue(added.value)}`
    this.faults.push({ offset: added.start, path, message })
    return before
  }

  #placeText(offset: number): string {
    const { texts, name } = this.#options
    const { file = name, line, column } = texts.place(offset)
    return `${file}:${line}:${column}`
  }
}

/** Checks the keys of an included file that are not merged. */
function checkKeys(root: Located): Fault[] {
  if (!holdsMap(root)) {
    const message = `expected a map of ${KEYS.join(', ')}, found ${isList(root) ? 'a list' : 'a single value'}`
    // The path of a password may have been written here by mistake: the message does not repeat what is there.
    return [{ offset: root.start, path: [], message }]
  }
  const faults: Fault[] = []
  for (const [key, { key: offset, start, value }] of root.children) {
    const word = String(key)
    if (word === 'version' && value !== 1) {
      faults.push({ offset: start, path: [word], message: `expected 1, found ${showValue(value)}` })
    }
    if (KEYS.includes(word)) continue
    const near = nearest(word, KEYS)
    const hint =
      near === undefined ? `an included file has ${KEYS.join(', ')}` : `did you mean ${quoteKey(near)}?`
    faults.push({ offset, path: [word], message: `unknown key ${quoteKey(word)}; ${hint}` })
  }
  const include = root.children.get('include')
  const result = includedFiles.safeParse(include?.value ?? [])
  if (include !== undefined && !result.success) {
    const found = faultsOfIssues(result.error.issues, include)
    faults.push(...found.map(fault => ({ ...fault, path: ['include', ...fault.path] })))
  }
  return faults
}

/** The tree of an included file, with its relative paths made relative to the configuration file. */
function withPrefix(root: Located, prefix: string): Located {
  if (prefix === '' || prefix === '.') return root
  return mapScalars(root, ({ value }, path) =>
    typeof value === 'string' && value !== '' && isPath(path) ? within(prefix, value) : value,
  )
}

/** Whether a key of an included file holds the path of a file. */
function isPath([section, second, third, fourth]: Path): boolean {
  if (section === 'deny') return second === 'hosts_file'
  if (section === 'rules') return third === 'hosts_file'
  return section === 'clients' && third === 'basic' && fourth === 'htpasswd_file'
}

/** Resolves a path against a folder, which may be relative itself. */
function within(folder: string, path: string): string {
  return isAbsolute(path) ? path : join(folder, path)
}

/** The items of a list with their positions; `hosts_file` may be one item without a list. */
function itemsOf(node: Located, path: Path): Located[] | undefined {
  if (isList(node)) {
    return [...node.children.values()].map((item, position) => ({ position, ...item }))
  }
  const isItem = path[1] === 'hosts_file' && typeof node.value === 'string'
  return isItem ? [{ ...node, position: undefined, isAlone: true }] : undefined
}

function isList({ value }: Located): boolean {
  return Array.isArray(value)
}

/**
 * The path of a value in its own file.
 * @param path in the configuration with everything that it includes
 */
export function ownPath(root: Located, path: Path): Path {
  let node: Located | undefined = root
  return path.flatMap(step => {
    node = node?.children.get(step)
    if (node?.isAlone === true) return []
    return [node?.position ?? step]
  })
}
