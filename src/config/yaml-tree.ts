/**
 * The file's text as a tree of plain values that know where they stand (YAML 1.2, core schema).
 *
 * Values are built here rather than by the YAML library, so that every key and value keeps its offset, a key written
 * twice is an error and not the last one's victory, and aliases cannot blow a small file up into a large value.
 */
import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  Parser,
} from 'yaml'
import { type Path, quoteKey } from './problem.js'
import { type Expansion, expandVariables, hasVariables, type Variables } from './variables.js'

/** A mistake at an offset into the text (UTF-16 units); where there are several texts, into all of them, one after the other. */
export interface Fault {
  readonly offset: number
  readonly path: Path
  readonly message: string
  /** Whether it is one of several in a file that the key at the path names. */
  readonly ofFile?: boolean
}

export interface Located {
  /** What the schema sees: maps have no prototype. */
  readonly value: unknown
  /** Where the value starts; where its key starts when the value is not written out. */
  readonly start: number
  /** Where its key starts; for a list item, the item. */
  readonly key: number
  readonly children: ReadonlyMap<string | number, Located>
  /** Values in it, itself included, aliases counted in full. */
  readonly size: number
  /** Of a scalar that names variables. */
  readonly expansion?: Expansion
  /** Of an item of a list that several files make: its position in the list of its own file ... */
  readonly position?: number | undefined
  /** ... or that it is no item there, but what stands in place of the list. */
  readonly isAlone?: boolean
  /** Whether a problem with it is reported already. */
  readonly isFaulty?: boolean
}

/** `root` is undefined when the text is no YAML at all; then `faults` says why. */
export interface YamlTree {
  readonly root: Located | undefined
  readonly faults: readonly Fault[]
}

/** Open collections the parser may hold; the library's composer is recursive, and a stack overflow there is fatal. */
const MAX_DEPTH = 64
/** Values that all aliases together may stand for. */
const MAX_ALIASED = 100_000
/** Characters that all variables together may stand for. */
const MAX_EXPANDED = 16 * 1024 * 1024

const QUOTE_HINT = 'a value that begins with * goes in quotes, as in "*.example.com"'
// biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
const VARIABLE_HINT = 'within [ ] and { } a value that names a variable goes in quotes, as in ["${NAME}"]'

/** What messages say of the kind of file that it is. */
export interface FileKind {
  /** What it is, with its article. */
  readonly noun: string
  /** What it begins with, for who has an empty one. */
  readonly beginning: string
}

const CONFIGURATION: FileKind = { noun: 'a configuration', beginning: '`version: 1`' }

const OPTIONS = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  stringKeys: true,
  uniqueKeys: false,
  strict: true,
} as const

export interface YamlOptions {
  /** A configuration when left out. */
  readonly kind?: FileKind
  /** What values may name; absent, `${` has no meaning. */
  readonly variables?: Variables | undefined
  /** The offset that the text begins at. */
  readonly base?: number
}

/** Never throws on bad input: everything wrong is in `faults`. */
export function readYaml(text: string, options: YamlOptions = {}): YamlTree {
  const { base = 0 } = options
  const { root, faults } = readText(text, options)
  return { root, faults: faults.map(fault => ({ ...fault, offset: fault.offset + base })) }
}

/** The faults have their offsets into the text itself. */
function readText(
  text: string,
  { kind: { noun, beginning } = CONFIGURATION, variables, base = 0 }: YamlOptions,
): YamlTree {
  const empty = `the file is empty; ${noun} begins with ${beginning}`
  const composer = new Composer(OPTIONS)
  let documents: Document.Parsed[]
  try {
    documents = [...composer.compose(tokens(text), true, text.length)]
  } catch (error) {
    if (error instanceof TooDeep) return { root: undefined, faults: [error.fault] }
    throw error
  }
  const [document, second] = documents
  if (document === undefined) return { root: undefined, faults: [{ offset: 0, path: [], message: empty }] }
  const faults: Fault[] = []
  if (second !== undefined) {
    const message = `a second document begins here; ${noun} is one document`
    faults.push({ offset: second.range[0], path: [], message })
  }
  for (const { pos, message, code } of [...document.errors, ...document.warnings]) {
    const hint = code === 'BAD_ALIAS' ? `; ${QUOTE_HINT}` : variableHint(text, pos[0])
    const clause = code === 'NON_STRING_KEY' ? 'a key is text, not a list or a map' : lowerFirst(message)
    faults.push({ offset: pos[0], path: [], message: `not valid YAML: ${clause}${hint}` })
    // All that follows in the text is read wrongly for it.
    if (hint.endsWith(VARIABLE_HINT)) break
  }
  if (faults.length > 0) return { root: undefined, faults }
  const blank = document.contents === null || (isScalar(document.contents) && document.contents.source === '')
  if (blank) return { root: undefined, faults: [{ offset: 0, path: [], message: empty }] }
  const reader = new TreeReader(text, base, variables)
  const root = reader.read(document.contents, [], document.contents?.range[0] ?? 0)
  return { root, faults: reader.faults }
}

/** For a mistake in a line up to which a variable stands without quotes in a list or a map that is written in one line. */
function variableHint(text: string, offset: number): string {
  const end = text.indexOf('\n', offset)
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, end === -1 ? undefined : end)
  return /[[{,:]\s*[^"'\s]*\$\{/.test(line) ? `; ${VARIABLE_HINT}` : ''
}

/** The value at a path; undefined when the file has none there. */
export function valueAt(root: Located | undefined, ...path: Path): Located | undefined {
  return path.reduce<Located | undefined>((node, step) => node?.children.get(step), root)
}

class TooDeep extends Error {
  readonly fault: Fault
  constructor(offset: number) {
    super('nested too deeply')
    this.fault = { offset, path: [], message: `nested more than ${MAX_DEPTH} deep` }
  }
}

function* tokens(text: string): Generator<CST.Token, void> {
  const parser = new Parser()
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme)
    if (parser.stack.length > MAX_DEPTH) throw new TooDeep(parser.offset)
  }
  yield* parser.end()
}

class TreeReader {
  /** With offsets into the text itself; those of the tree begin at `base`. */
  readonly faults: Fault[] = []
  readonly #text: string
  readonly #base: number
  readonly #variables: Variables | undefined
  readonly #anchors = new Map<string, Located>()
  #aliased = 0
  #expanded = 0

  constructor(text: string, base: number, variables: Variables | undefined) {
    this.#text = text
    this.#base = base
    this.#variables = variables
  }

  read(node: unknown, path: Path, key: number): Located {
    if (isAlias(node)) return this.#alias(node.source, path, key, node.range?.[0] ?? key)
    const located = this.#collectionOrScalar(node, path, key)
    // After its content, so that nothing can hold itself.
    if ((isMap(node) || isSeq(node) || isScalar(node)) && node.anchor !== undefined) {
      this.#anchors.set(node.anchor, located)
    }
    return located
  }

  #alias(name: string, path: Path, key: number, start: number): Located {
    const target = this.#anchors.get(name)
    this.#aliased += target?.size ?? 1
    const place = this.#place(start, key)
    if (target !== undefined && this.#aliased <= MAX_ALIASED) return { ...target, ...place }
    const unknown = `nothing above is anchored as &${name}; ${QUOTE_HINT}`
    const message = target === undefined ? unknown : `aliases stand for more than ${MAX_ALIASED} values`
    this.faults.push({ offset: start, path, message })
    return { value: undefined, ...place, children: new Map(), size: 1 }
  }

  #collectionOrScalar(node: unknown, path: Path, key: number): Located {
    if (isMap(node)) return this.#map(node.items, path, key, node.range?.[0] ?? key)
    if (isSeq(node)) return this.#list(node.items, path, key, node.range?.[0] ?? key)
    const [from, to] = (isNode(node) ? node.range : undefined) ?? [key, key]
    const value = isScalar(node) ? node.value : null
    const located = { ...this.#place(to > from ? from : key, key), children: new Map(), size: 1 }
    if (typeof value !== 'string' || this.#variables === undefined || !hasVariables(value)) {
      return { value, ...located }
    }
    const expansion = this.#expand(value, this.#variables, path, from)
    if (expansion === undefined) return { value: undefined, ...located, isFaulty: true }
    return { value: expansion.text, ...located, expansion }
  }

  /** @param from where the scalar begins, with its quotes */
  #expand(value: string, variables: Variables, path: Path, from: number): Expansion | undefined {
    const expansion = expandVariables(value, variables)
    if (Array.isArray(expansion)) {
      let next = from
      for (const { written, message } of expansion) {
        // A quoted scalar may write a character in another way than it is.
        const found = this.#text.indexOf(written, next)
        this.faults.push({ offset: found === -1 ? from : found, path, message })
        next = found + 1
      }
      return undefined
    }
    this.#expanded += expansion.text.length
    if (this.#expanded <= MAX_EXPANDED) return expansion
    const message = `variables stand for more than ${MAX_EXPANDED} characters`
    this.faults.push({ offset: from, path, message })
    return undefined
  }

  #map(items: readonly { key: unknown; value: unknown }[], path: Path, key: number, start: number): Located {
    const value: Record<string, unknown> = Object.create(null)
    const children = new Map<string | number, Located>()
    let size = 1
    for (const pair of items) {
      const name = isScalar(pair.key) ? String(pair.key.value) : ''
      const offset = (isScalar(pair.key) ? pair.key.range?.[0] : undefined) ?? start
      const below = [...path, name]
      const child = this.read(pair.value, below, offset)
      size += child.size
      if (children.has(name)) {
        this.faults.push({
          offset,
          path: below,
          message: `the key ${quoteKey(name)} appears a second time`,
        })
      } else if (name === '__proto__') {
        this.faults.push({ offset, path: below, message: `${quoteKey(name)} cannot be a key` })
      } else {
        children.set(name, child)
        value[name] = child.value
      }
    }
    return { value, ...this.#place(start, key), children, size }
  }

  #list(items: readonly unknown[], path: Path, key: number, start: number): Located {
    const children = new Map<string | number, Located>()
    let size = 1
    for (const [index, item] of items.entries()) {
      const offset = isNode(item) ? item.range?.[0] : undefined
      const child = this.read(item, [...path, index], offset ?? start)
      size += child.size
      children.set(index, child)
    }
    const value = [...children.values()].map(child => child.value)
    return { value, ...this.#place(start, key), children, size }
  }

  #place(start: number, key: number): Pick<Located, 'start' | 'key'> {
    return { start: start + this.#base, key: key + this.#base }
  }
}

/**
 * The tree with other values for some of its scalars; all else, places included, is as it was.
 *
 * @param change gives the value of a scalar at a path; the same one where it stays
 */
export function mapScalars(
  node: Located,
  change: (node: Located, path: Path) => unknown,
  path: Path = [],
): Located {
  if (typeof node.value !== 'object' || node.value === null) {
    const value = change(node, path)
    return Object.is(value, node.value) ? node : { ...node, value }
  }
  let isSame = true
  const children = new Map<string | number, Located>()
  for (const [step, child] of node.children) {
    const mapped = mapScalars(child, change, [...path, step])
    if (mapped !== child) isSame = false
    children.set(step, mapped)
  }
  return isSame ? node : { ...node, ...collection(children, Array.isArray(node.value)) }
}

/** The value of a list or a map with these children. */
export function collection(
  children: ReadonlyMap<string | number, Located>,
  isList: boolean,
): Pick<Located, 'value' | 'children'> {
  if (isList) return { value: [...children.values()].map(({ value }) => value), children }
  const value: Record<string | number, unknown> = Object.create(null)
  for (const [name, child] of children) value[name] = child.value
  return { value, children }
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}
