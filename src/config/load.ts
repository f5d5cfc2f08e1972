/**
 * From a file to a Config, or to every problem at once, each with its line and column, in file order.
 *
 * Nothing is half accepted: a Config comes out only when there is no problem at all.
 */
import { createHash } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import { ConfigSources, FileReader, readErrorText } from './file-reader.js'
import { type ConfigFiles, NO_FILES, readConfigFiles, type ReadFiles } from './files.js'
import { deepFreeze } from './freeze.js'
import type { Path, Problem } from './problem.js'
import { checkParentLoop, checkReferences } from './references.js'
import { type Config, configSchema } from './schema.js'
import { findWarnings } from './warnings.js'
import {
  configError,
  decodeUtf8,
  faultsOfIssues,
  positions,
  problems,
  readBytes,
  type ReadOptions,
  unreadable,
} from './yaml-file.js'
import { type Located, readYaml, valueAt } from './yaml-tree.js'

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

/** With `input`, the relative paths in it start at the working directory. */
export interface LoadOptions extends ReadOptions {
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
  { override, ...options }: LoadOptions = {},
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
  const folder = isFile ? dirname(path) : '.'
  return parseConfig(decodeUtf8(bytes, path), path, folder, Date.now(), sources, override)
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
