/**
 * From a file, and those that it includes, to a Config, or to every problem at once, each with its line and column, in file
 * order.
 *
 * Nothing is half accepted: a Config comes out only when there is no problem at all.
 */
import { createHash } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import { ConfigSources, FileReader, readErrorText } from './file-reader.js'
import { type ConfigFiles, NO_FILES, readConfigFiles, type ReadFiles } from './files.js'
import { deepFreeze } from './freeze.js'
import { mergeIncluded, ownPath } from './include.js'
import type { Path, Problem } from './problem.js'
import { checkParentLoop, checkReferences } from './references.js'
import { type Config, configSchema } from './schema.js'
import { type Mask, Secrets } from './secrets.js'
import { describeExpanded, hasVariables, numberOrBoolean, type Variables } from './variables.js'
import { findWarnings } from './warnings.js'
import {
  configError,
  decodeUtf8,
  faultsOfIssues,
  problems,
  readBytes,
  type ReadOptions,
  Texts,
  unreadable,
} from './yaml-file.js'
import { type Fault, type Located, mapScalars, readYaml, valueAt } from './yaml-tree.js'

export interface Loaded {
  readonly config: Config
  /**
   * The first 12 hex digits of a SHA-256, to tell configurations apart in logs: of the text, of the files that it includes and
   * the lists of hosts that it names, and of the values that it takes from the environment.
   */
  readonly hash: string
  /** False for the defaults without a file. */
  readonly fromFile: boolean
  /** What is valid but probably a mistake, in file order. */
  readonly warnings: readonly Problem[]
  /** Where its relative paths start. */
  readonly folder: string
  /** The content of the files it names. */
  readonly files: ConfigFiles
  /** The place of a key, such as `['rules', 'web', 'hosts', 0]`; undefined if it is left out. */
  placeOf(path: Path): KeyPlace | undefined
  /** Replaces the values of variables that no message may repeat by the names of the variables. */
  readonly mask: Mask
}

export interface KeyPlace {
  /** The included file that it is in; absent for the configuration file itself. */
  readonly file?: string
  /** From 1. */
  readonly line: number
}

/** With `input`, the relative paths in it start at the working directory. */
export interface LoadOptions extends ReadOptions, ParseOptions {}

export interface ParseOptions {
  /** Changes the configuration before it is checked as a whole, such as by options of the command line. */
  readonly override?: Override
  /** The environment variables that `${NAME}` refers to; if absent, none is set. */
  readonly variables?: Variables | undefined
}

export type Override = (config: Config) => Config

/**
 * @param path a YAML file in UTF-8
 * @param sources records what is read, even if it cannot be used
 * @throws ConfigError with every problem, or with one when the file cannot be read
 */
export async function loadConfig(
  path: string,
  sources = new ConfigSources(),
  options: LoadOptions = {},
): Promise<Loaded> {
  let bytes: Buffer
  try {
    bytes = await readBytes(path, options)
  } catch (error) {
    sources.add(resolve(path), readErrorText(error))
    throw unreadable(path, error)
  }
  const isFile = options.input === undefined
  if (isFile) sources.add(resolve(path), bytes)
  const text = decodeUtf8(bytes, path)
  const source = isFile
    ? { text, name: path, folder: dirname(path), path: resolve(path) }
    : { text, name: path, folder: '.', path: undefined }
  return parseSource(source, Date.now(), sources, options)
}

/**
 * @param text YAML
 * @param name its name in messages
 * @param folder where its relative paths start
 * @param nowMs the time at which its certificates have to be valid, in milliseconds since the epoch
 * @param sources records the files that it names
 * @throws ConfigError with every problem, those of the files it names included
 */
export function parseConfig(
  text: string,
  name = 'configuration',
  folder = '.',
  nowMs = Date.now(),
  sources = new ConfigSources(),
  options: ParseOptions = {},
): Loaded {
  return parseSource({ text, name, folder, path: undefined }, nowMs, sources, options)
}

/** The text of a configuration, and where it comes from. */
interface Source {
  readonly text: string
  /** Its name in messages. */
  readonly name: string
  /** Where its relative paths start. */
  readonly folder: string
  /** Absolute; undefined when it is no file. */
  readonly path: string | undefined
}

function parseSource(
  source: Source,
  nowMs: number,
  sources: ConfigSources,
  { override = config => config, variables = {} }: ParseOptions,
): Loaded {
  return parseText(source, sources, override, variables, (config, root) =>
    readConfigFiles(config, new FileReader(root, source.folder, sources), nowMs),
  )
}

function parseText(
  { text, name, folder, path }: Source,
  sources: ConfigSources,
  override: Override,
  variables: Variables,
  readFiles: (config: Config, root: Located) => ReadFiles,
): Loaded {
  const texts = new Texts(text)
  const secrets = new Secrets()
  const { mask } = secrets
  const read = readYaml(text, { variables, secrets })
  if (read.root === undefined) throw configError(name, texts, read.faults)
  const merged = mergeIncluded(read.root, { name, folder, path, texts, sources, variables, secrets })
  const { root, result } = parseTyped(merged.root)
  const issues = result.success ? [] : faultsOfIssues(result.error.issues, root)
  const references = merged.isComplete ? checkReferences(root, folder, texts) : []
  const found = [...issues, ...references]
  const all = [...read.faults, ...merged.faults, ...asWritten(root, found)]
  if (!result.success || all.length > 0) throw configError(name, texts, all, mask)
  const config: Config = deepFreeze(override(result.data))
  const named = readFiles(config, root)
  const unusable = [...checkParentLoop(root, config), ...named.faults]
  if (unusable.length > 0) throw configError(name, texts, asWritten(root, unusable), mask)
  const warnings = [...findWarnings(root, config, named.files), ...named.warnings]
  return Object.freeze({
    config,
    hash: hashOf(texts, root, named.listDigests),
    fromFile: true,
    warnings: Object.freeze(problems(texts, asWritten(root, warnings), mask)),
    folder,
    files: deepFreeze(named.files),
    placeOf: (path: Path) => {
      const key = valueAt(root, ...path)?.key
      return key === undefined ? undefined : placeOf(texts, key, mask)
    },
    mask,
  })
}

/**
 * Parses a configuration by the schema. A value with variables is text first; if its key takes no such text but a number or a
 * boolean, it is converted.
 */
function parseTyped(root: Located): { root: Located; result: ReturnType<typeof configSchema.safeParse> } {
  const result = configSchema.safeParse(root.value)
  if (result.success) return { root, result }
  const paths = new Set(faultsOfIssues(result.error.issues, root).map(({ path }) => JSON.stringify(path)))
  const typed = mapScalars(root, ({ value, expansion }, path) => {
    if (expansion === undefined || typeof value !== 'string' || !paths.has(JSON.stringify(path))) return value
    return numberOrBoolean(value) ?? value
  })
  return typed === root ? { root, result } : parseTyped(typed)
}

/** The faults with paths as in their own files, and without secrets from variables. */
function asWritten(root: Located, faults: readonly Fault[]): Fault[] {
  return faults.map(fault => {
    const expansion = valueAt(root, ...fault.path)?.expansion
    const message = expansion === undefined ? fault.message : describeExpanded(fault.message, expansion)
    return { ...fault, path: ownPath(root, fault.path), message }
  })
}

function placeOf(texts: Texts, offset: number, mask: Mask): KeyPlace {
  const { file, line } = texts.place(offset)
  return file === undefined ? { line } : { file: mask(file), line }
}

/**
 * The configuration without a file: the defaults, and a store to try things with. A web page can let any name resolve to this
 * machine, so the store answers only requests for localhost or an address. If its directory cannot be created, everything
 * but the store works.
 */
export function defaultConfig(override?: Override): Loaded {
  const origins =
    'origins: [{ host: [localhost, "0.0.0.0/0", "::/0"], path: /, store: { directory: ./data } }]'
  const text = `version: 1\n${origins}\n`
  const none = { files: NO_FILES, listDigests: [], faults: [], warnings: [] }
  const source = { text, name: 'configuration', folder: '.', path: undefined }
  const parsed = parseText(source, new ConfigSources(), override ?? (config => config), {}, () => none)
  return Object.freeze({ ...parsed, hash: 'default', fromFile: false, placeOf: () => undefined })
}

/** For a single file without variables and lists of hosts it is the digest of its text. */
function hashOf(texts: Texts, root: Located, listDigests: readonly string[]): string {
  const parts = [...texts.all, ...listDigests]
  if (texts.all.some(hasVariables)) {
    mapScalars(root, ({ value, expansion }) => {
      if (expansion !== undefined && expansion.names !== '') parts.push(expansion.text)
      return value
    })
  }
  return createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 12)
}
