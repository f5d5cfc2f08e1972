/**
 * The text of a file as a tree of plain values with their offsets (YAML 1.2, core schema).
 *
 * Values are built here and not by the YAML library, so that every key and value keeps its offset, a key that is written
 * twice is an error, and aliases cannot expand a small file to a huge value.
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
import type { Secrets } from './secrets.js'
import { type Expansion, expandVariables, hasVariables, type Variables } from './variables.js'

/** A mistake at an offset into the text (in UTF-16 units), or into several texts one after the other. */
export interface Fault {
  readonly offset: number
  readonly path: Path
  readonly message: string
  /** Whether it is about a line of a file that the key names, so that several at one place are distinct. */
  readonly ofFile?: boolean
}

export interface Located {
  /** The value for the schema; maps have no prototype. */
  readonly value: unknown
  /** The offset of the value, or of its key if the value is left out. */
  readonly start: number
  /** The offset of the key; for a list item, of the item. */
  readonly key: number
  readonly children: ReadonlyMap<string | number, Located>
  /** The number of values in it, including itself; aliases count as what they expand to. */
  readonly size: number
  /** Present for a scalar that names variables. */
  readonly expansion?: Expansion
  /** For an item of a list that is merged from several files: its position in its own file. */
  readonly position?: number | undefined
  /** Whether such an item is written without a list in its own file. */
  readonly isAlone?: boolean
  /** Whether a problem with it is reported already. */
  readonly isFaulty?: boolean
}

/** `root` is undefined if the text is not YAML; then `faults` says why. */
export interface YamlTree {
  readonly root: Located | undefined
  readonly faults: readonly Fault[]
}

/** The deepest nesting: the composer of the library is recursive, and a stack overflow in it is fatal. */
const MAX_DEPTH = 64
/** The most values that all aliases may expand to. */
const MAX_ALIASED = 100_000
/** The most characters that all values with variables may expand to. */
const MAX_EXPANDED = 16 * 1024 * 1024

const QUOTE_HINT = 'a value that begins with * goes in quotes, as in "*.example.com"'
// biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
const VARIABLE_HINT = 'within [ ] and { } a value that names a variable goes in quotes, as in ["${NAME}"]'

/** The kind of file, for messages. */
export interface FileKind {
  /** The kind, with its article. */
  readonly noun: string
  /** What such a file begins with, for the message about an empty one. */
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
  /** The variables that values may name; if absent, `${` is ordinary text. */
  readonly variables?: Variables | undefined
  /** Gets the values of variables that no message may repeat. */
  readonly secrets?: Secrets | undefined
  /** The offset that the text begins at. */
  readonly base?: number
}

/** Never throws on invalid input: all mistakes are in `faults`. */
export function readYaml(text: string, options: YamlOptions = {}): YamlTree {
  const { base = 0 } = options
  const { root, faults } = readText(text, options)
  return { root, faults: faults.map(fault => ({ ...fault, offset: fault.offset + base })) }
}

/** The faults have their offsets into the text itself. */
function readText(
  text: string,
  { kind: { noun, beginning } = CONFIGURATION, variables, secrets, base = 0 }: YamlOptions,
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
    // Errors in the rest of the text are consequences of this one.
    if (hint.endsWith(VARIABLE_HINT)) break
  }
  if (faults.length > 0) return { root: undefined, faults }
  const blank = document.contents === null || (isScalar(document.contents) && document.contents.source === '')
  if (blank) return { root: undefined, faults: [{ offset: 0, path: [], message: empty }] }
  const reader = new TreeReader(text, base, variables, secrets)
  const root = reader.read(document.contents, [], document.contents?.range[0] ?? 0)
  return { root, faults: reader.faults }
}

/** A hint for a syntax error in a line that has a variable without quotes in a list or a map with brackets. */
function variableHint(text: string, offset: number): string {
  const end = text.indexOf('\n', offset)
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, end === -1 ? undefined : end)
  return /[[{,:]\s*[^"'\s]*\$\{/.test(line) ? `; ${VARIABLE_HINT}` : ''
}

/** Whether it is a map; a list is none. */
export function holdsMap({ value }: Located): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value at a path; undefined if the file has none. */
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
  readonly #secrets: Secrets | undefined
  readonly #anchors = new Map<string, Located>()
  #aliased = 0
  #expanded = 0

  constructor(text: string, base: number, variables: Variables | undefined, secrets: Secrets | undefined) {
    this.#text = text
    this.#base = base
    this.#variables = variables
    this.#secrets = secrets
  }

  read(node: unknown, path: Path, key: number): Located {
    if (isAlias(node)) return this.#alias(node.source, path, key, node.range?.[0] ?? key)
    const located = this.#collectionOrScalar(node, path, key)
    // After its content, so that no value can contain itself.
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
    this.#secrets?.add(expansion)
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
