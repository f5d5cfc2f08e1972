/**
 * From a file to a Config, or to every problem at once, each with its line and column, in file order.
 *
 * Nothing is half accepted: a Config comes out only when there is no problem at all.
 */
import { createHash } from 'node:crypto'
import { constants, createReadStream, type ReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { LineCounter } from 'yaml'
import type * as z from 'zod'
import { ConfigSources, FileReader, readErrorText } from './file-reader.js'
import { type ConfigFiles, NO_FILES, readConfigFiles, type ReadFiles } from './files.js'
import { deepFreeze } from './freeze.js'
import { ConfigError, formatPath, type Path, type Problem, quoteKey } from './problem.js'
import { checkParentLoop, checkReferences } from './references.js'
import { type Config, configSchema } from './schema.js'
import { withoutUserinfo } from './upstream-url.js'
import { findWarnings } from './warnings.js'
import { type Fault, type Located, readYaml, valueAt } from './yaml-tree.js'

/** Ten thousand rules have about one. */
const MAX_BYTES = 16 * 1024 * 1024

export interface Loaded {
  readonly config: Config
  /** The first 12 hex digits of the SHA-256 of the text, to tell configurations apart in logs. */
  readonly hash: string
  /** False for what no file means. */
  readonly fromFile: boolean
  /** What is not wrong but hardly meant, in file order. */
  readonly warnings: readonly Problem[]
  /** What the relative paths in it start from. */
  readonly folder: string
  /** The content of the files it names. */
  readonly files: ConfigFiles
  /** The line (from 1) in which a key stands, such as `['rules', 'web', 'hosts', 0]`; undefined when it is left out. */
  lineOf(path: Path): number | undefined
}

export interface LoadOptions {
  /** `regular` refuses all else, for whoever cannot wait: a pipe that nobody writes to never begins. */
  readonly kind?: 'any' | 'regular'
  /** What beats the file, before it is looked at as a whole. */
  readonly override?: Override
}

export type Override = (config: Config) => Config

/**
 * @param path a YAML file in UTF-8
 * @param sources gets what is read, also when it cannot be used
 * @throws ConfigError with every problem, or with one when the file cannot be read
 */
export async function loadConfig(
  path: string,
  sources = new ConfigSources(),
  { kind = 'any', override }: LoadOptions = {},
): Promise<Loaded> {
  let bytes: Buffer
  try {
    bytes = await readLimited(kind === 'any' ? createReadStream(path) : await openRegular(path))
  } catch (error) {
    const problem = { line: 0, column: 0, path: '', message: readErrorText(error) }
    sources.add(resolve(path), problem.message)
    throw new ConfigError(path, [problem], { cause: error })
  }
  sources.add(resolve(path), bytes)
  return parseConfig(decodeUtf8(bytes, path), path, dirname(path), Date.now(), sources, override)
}

/** @throws the system's error, or a RangeError when it is too large to be a configuration */
async function readLimited(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) throw new RangeError(`more than ${MAX_BYTES} bytes, expected a configuration`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/**
 * Without waiting for whoever may write to it; what was opened is looked at, so that nothing takes its place in between.
 *
 * @throws the system's error, or a RangeError when it is not a regular file
 */
async function openRegular(path: string): Promise<ReadStream> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = await handle.stat()
    // Reading says what is wrong with a folder.
    if (!stat.isFile() && !stat.isDirectory()) throw new RangeError('not a regular file')
  } catch (error) {
    await handle.close()
    throw error
  }
  return handle.createReadStream()
}

/**
 * @param text YAML
 * @param name what messages call it
 * @param folder what the relative paths in it start from
 * @param nowMs when the certificates it names have to be valid, in milliseconds since the epoch
 * @param sources gets the files it names
 * @param override gives what holds in place of what the text says
 * @throws ConfigError with every problem, those of the files it names included
 */
export function parseConfig(
  text: string,
  name = 'configuration',
  folder = '.',
  nowMs = Date.now(),
  sources = new ConfigSources(),
  override: Override = config => config,
): Loaded {
  return parseText(text, name, folder, override, (config, root) =>
    readConfigFiles(config, new FileReader(root, folder, sources), nowMs),
  )
}

function parseText(
  text: string,
  name: string,
  folder: string,
  override: Override,
  readFiles: (config: Config, root: Located) => ReadFiles,
): Loaded {
  const { root, faults } = readYaml(text)
  if (root === undefined) throw configError(name, text, faults)
  const result = configSchema.safeParse(root.value)
  const issues = result.success ? [] : faultsOfIssues(result.error.issues, root)
  const all = [...faults, ...issues, ...checkReferences(root, folder)]
  if (!result.success || all.length > 0) throw configError(name, text, all)
  const config: Config = deepFreeze(override(result.data))
  const read = readFiles(config, root)
  const unusable = [...checkParentLoop(root, config), ...read.faults]
  if (unusable.length > 0) throw configError(name, text, unusable)
  const warnings = [...findWarnings(root, config), ...read.warnings]
  const position = positions(text)
  return Object.freeze({
    config,
    hash: createHash('sha256').update(text).digest('hex').slice(0, 12),
    fromFile: true,
    warnings: Object.freeze(problems(text, warnings)),
    folder,
    files: deepFreeze(read.files),
    lineOf: (path: Path) => {
      const key = valueAt(root, ...path)?.key
      return key === undefined ? undefined : position(key).line
    },
  })
}

/**
 * What no file at all means: that nothing is configured, but for a store to try things with. A page that a browser
 * shows can have any name lead to this machine, so it is for requests that name it by its address, or as localhost.
 * Where its directory cannot be, all but the store works.
 */
export function defaultConfig(override?: Override): Loaded {
  const origins =
    'origins: [{ host: [localhost, "0.0.0.0/0", "::/0"], path: /, store: { directory: ./data } }]'
  const text = `version: 1\n${origins}\n`
  const none = { files: NO_FILES, faults: [], warnings: [] }
  const parsed = parseText(text, 'configuration', '.', override ?? (config => config), () => none)
  return Object.freeze({ ...parsed, hash: 'default', fromFile: false, lineOf: () => undefined })
}

type Issue = z.core.$ZodIssue

/**
 * The schema's issues as faults with a place in the file: which key or value each one means, and what was found there.
 * @param issues what safeParse of `root.value` reported
 */
function faultsOfIssues(issues: readonly Issue[], root: Located): Fault[] {
  return issues.flatMap(issue => faultsOf(issue, pathOf(issue), root))
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
    // The alternative that got into the value is the one that was meant.
    const inner = issue.errors.find(branch =>
      branch.some(({ path: below, code }) => below.length > 0 || code === 'unrecognized_keys'),
    )
    if (inner !== undefined) return inner.flatMap(each => faultsOf(each, [...path, ...pathOf(each)], root))
  }
  if (node !== undefined) return [{ offset, path, message: `${issue.message}, found ${show(node.value)}` }]
  const parent = valueAt(root, ...path.slice(0, -1)) ?? root
  const message = `the key ${quoteKey(String(path.at(-1)))} is missing; ${issue.message}`
  return [{ offset: parent === root ? root.start : parent.key, path, message }]
}

function pathOf(issue: Issue): Path {
  return issue.path.map(step => (typeof step === 'number' ? step : String(step)))
}

const SHOWN_CHARACTERS = 60

/** A value for a message. */
function show(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object') return 'a map'
  if (typeof value !== 'string') return String(value)
  const text = withoutUserinfo(value)
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text)
}

function configError(name: string, text: string, faults: readonly Fault[]): ConfigError {
  return new ConfigError(name, problems(text, faults))
}

/** In file order, a map before what is in it; where one place and path has several faults, the first found says it. */
function problems(text: string, faults: readonly Fault[]): Problem[] {
  const byPlace = new Map<string, Fault & { readonly text: string }>()
  for (const fault of faults) {
    const path = formatPath(fault.path)
    const place = `${fault.offset} ${path}`
    if (!byPlace.has(place)) byPlace.set(place, { ...fault, text: path })
  }
  const position = positions(text)
  return [...byPlace.values()]
    .sort((a, b) => a.offset - b.offset || a.path.length - b.path.length)
    .map(({ offset, text: path, message }) => ({ ...position(offset), path, message }))
}

function positions(text: string): (offset: number) => { line: number; column: number } {
  const counter = new LineCounter()
  counter.addNewLine(0)
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) counter.addNewLine(at + 1)
  return offset => {
    const { line, col } = counter.linePos(offset)
    return { line, column: col }
  }
}

function decodeUtf8(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    const lenient = new TextDecoder('utf-8').decode(bytes)
    const offset = Math.max(0, lenient.indexOf('\ufffd'))
    throw configError(name, lenient, [{ offset, path: [], message: 'expected UTF-8, found other bytes' }])
  }
}
