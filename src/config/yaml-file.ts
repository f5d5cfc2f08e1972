/**
 * A YAML file, the issues that a schema reports for it, and all problems with line and column. It does not depend on what the
 * file configures.
 */
import { constants, createReadStream, type ReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { LineCounter } from 'yaml'
import type * as z from 'zod'
import { readErrorText } from './file-reader.js'
import { ConfigError, formatPath, type Path, type Problem, quoteKey } from './problem.js'
import type { Mask } from './secrets.js'
import { withoutUserinfo } from './upstream-url.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

/** Ten thousand rules take about one MiB. */
const MAX_BYTES = 16 * 1024 * 1024

/** Is read instead of a file, such as standard input. */
export type Input = AsyncIterable<Uint8Array>

export interface ReadOptions {
  /** `regular` rejects everything else, for a caller that cannot wait: a pipe without a writer would block. */
  readonly kind?: 'any' | 'regular'
  /** Is read instead of the file; the path is then its name in messages. */
  readonly input?: Input | undefined
}

/** @throws the system's error, or a RangeError if the file is too large or not of that kind */
export async function readBytes(path: string, { kind = 'any', input }: ReadOptions = {}): Promise<Buffer> {
  if (input !== undefined) return readLimited(input)
  return readLimited(kind === 'any' ? createReadStream(path) : await openRegular(path))
}

/** @returns the error for a file that could not be read, from the one that reading threw */
export function unreadable(path: string, error: unknown): ConfigError {
  const problem = { line: 0, column: 0, path: '', message: readErrorText(error) }
  return new ConfigError(path, [problem], { cause: error })
}

async function readLimited(stream: Input): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of stream) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) throw new RangeError(`more than ${MAX_BYTES} bytes, expected a configuration`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/**
 * Opens a file without waiting for a writer. The open file is checked, not the path, so that nothing can replace it between.
 *
 * @throws the system's error, or a RangeError if it is not a regular file
 */
async function openRegular(path: string): Promise<ReadStream> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = await handle.stat()
    // Reading a directory fails with a better message.
    if (!stat.isFile() && !stat.isDirectory()) throw new RangeError('not a regular file')
  } catch (error) {
    await handle.close()
    throw error
  }
  return handle.createReadStream()
}

type Issue = z.core.$ZodIssue

/**
 * Converts the issues of a schema into faults: the place of each in the file, and what was found there.
 * @param issues those that safeParse reported for `root.value`
 */
export function faultsOfIssues(issues: readonly Issue[], root: Located): Fault[] {
  return issues
    .flatMap(issue => faultsOf(issue, pathOf(issue), root))
    .filter(({ path }) => valueAt(root, ...path)?.isFaulty !== true)
}

function faultsOf(issue: Issue, path: Path, root: Located): Fault[] {
  const node = valueAt(root, ...path)
  const offset = node?.start ?? 0
  if (issue.code === 'custom') return [{ offset, path, message: issue.message }]
  if (issue.code === 'unrecognized_keys') {
    const lines = issue.message.split('\n')
    return issue.keys.map((key, i) => {
      const at = [...path, key]
      return { offset: valueAt(root, ...at)?.key ?? offset, path: at, message: lines[i] ?? issue.message }
    })
  }
  if (issue.code === 'invalid_union') {
    // The intended alternative is the one with issues below the value itself.
    const inner = issue.errors.find(branch =>
      branch.some(({ path: below, code }) => below.length > 0 || code === 'unrecognized_keys'),
    )
    if (inner !== undefined) return inner.flatMap(each => faultsOf(each, [...path, ...pathOf(each)], root))
  }
  if (node !== undefined)
    return [{ offset, path, message: `${issue.message}, found ${showValue(node.value)}` }]
  const parent = valueAt(root, ...path.slice(0, -1)) ?? root
  const message = `the key ${quoteKey(String(path.at(-1)))} is missing; ${issue.message}`
  return [{ offset: parent === root ? root.start : parent.key, path, message }]
}

function pathOf(issue: Issue): Path {
  return issue.path.map(step => (typeof step === 'number' ? step : String(step)))
}

const SHOWN_CHARACTERS = 60

/** A value for a message. */
export function showValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object') return 'a map'
  if (typeof value !== 'string') return String(value)
  const text = withoutUserinfo(value)
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text)
}

/** A place in one of the texts that a configuration is made of. */
export interface Place {
  /** The included file that it is in; absent for the configuration file itself. */
  readonly file?: string
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
}

interface SourceText {
  /** Undefined for the configuration file itself. */
  readonly file: string | undefined
  /** The offset that it begins at. */
  readonly base: number
  readonly text: string
  /** Created when the first place is needed. */
  lines?: LineCounter
}

/**
 * The texts that a configuration is made of: its own, and those of the files that it includes. An offset counts through
 * all of them, one after the other, so that it says which text it is in.
 */
export class Texts {
  readonly #texts: [SourceText, ...SourceText[]]

  /** @param main the text of the configuration file */
  constructor(main: string) {
    this.#texts = [{ file: undefined, base: 0, text: main }]
  }

  /** @returns the offset that the text begins at */
  add(text: string, file: string): number {
    const last = this.#texts.at(-1) ?? this.#texts[0]
    // The end of a text is an offset of its own: a value may be missing there.
    const base = last.base + last.text.length + 1
    this.#texts.push({ file, base, text })
    return base
  }

  /** The main text first. */
  get all(): readonly string[] {
    return this.#texts.map(({ text }) => text)
  }

  place(offset: number): Place {
    const found = this.#texts.findLast(({ base }) => base <= offset) ?? this.#texts[0]
    found.lines ??= countLines(found.text)
    const { line, col: column } = found.lines.linePos(offset - found.base)
    return found.file === undefined ? { line, column } : { file: found.file, line, column }
  }
}

function countLines(text: string): LineCounter {
  const counter = new LineCounter()
  counter.addNewLine(0)
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) counter.addNewLine(at + 1)
  return counter
}

/** @param mask removes secrets */
export function configError(name: string, texts: Texts, faults: readonly Fault[], mask?: Mask): ConfigError {
  return new ConfigError(name, problems(texts, faults, mask))
}

/**
 * Sorted by place, a map before its values; of several faults at one place and path only the first is kept.
 *
 * @param mask removes secrets from messages and from the names of included files
 */
export function problems(texts: Texts, faults: readonly Fault[], mask: Mask = text => text): Problem[] {
  const byPlace = new Map<string, Fault & { readonly text: string }>()
  for (const fault of faults) {
    const path = formatPath(fault.path)
    const place = `${fault.offset} ${path}${fault.ofFile === true ? ` ${fault.message}` : ''}`
    if (!byPlace.has(place)) byPlace.set(place, { ...fault, text: path })
  }
  return [...byPlace.values()]
    .sort((a, b) => a.offset - b.offset || a.path.length - b.path.length)
    .map(({ offset, text: path, message }) => {
      const { file, ...place } = texts.place(offset)
      return { ...(file === undefined ? {} : { file: mask(file) }), ...place, path, message: mask(message) }
    })
}

export const NOT_UTF8 = 'expected UTF-8, found other bytes'

/** @throws ConfigError if it is not UTF-8 */
export function decodeUtf8(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    const lenient = new TextDecoder('utf-8').decode(bytes)
    const offset = Math.max(0, lenient.indexOf('\ufffd'))
    throw configError(name, new Texts(lenient), [{ offset, path: [], message: NOT_UTF8 }])
  }
}
