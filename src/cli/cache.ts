/**
 * `sluice cache stats` and `sluice cache purge`: statistics of the cache of a running proxy, and removal of stored responses,
 * through the admin listener.
 */
import { readFileSync } from 'node:fs'
import { parseCacheUri } from '../cache/cache-uri.js'
import { type ListenAddress, parseSingleAddress, serializeListenAddress } from '../config/listen-address.js'
import { readErrorText } from '../config/file-reader.js'
import { NO_USER_PASSWORD, parseUserPassword } from '../config/line-files.js'
import { serializeBasic } from '../http/basic-credentials.js'
import { parsePurgedHost, serializePurge } from '../admin/purge-request.js'
import type { DocumentCache } from '../admin/status-document.js'
import type { Mask } from '../config/secrets.js'
import { type ConfigurationHost, readConfiguration } from '../run/configuration.js'
import { EXIT } from '../run/io.js'
import type { Purge } from '../upstream/cache/store.js'
import {
  type AdminAnswer,
  type AdminRequest,
  askAdmin,
  checkAdminOptions,
  describeAdminFailure,
  unreachable,
  withAdminOptions,
} from './admin-client.js'
import { checkGivenOnce, type Command } from './command.js'

export interface CacheArguments {
  /** The statistics, or a purge. */
  readonly what: 'stats' | Purge
  readonly config?: string | undefined
  /** The address of the admin listener; overrides the file. */
  readonly admin?: string | undefined
  /** A file with `user:password` in one line, for `listen.admin.basic`. */
  readonly basicFile?: string | undefined
  readonly json: boolean
}

/**
 * @returns the exit code: 66 if the credentials cannot be read, 69 if the admin listener does not respond or the cache is off,
 *   78 if the configuration file cannot be used
 */
export async function runCache(args: CacheArguments, host: ConfigurationHost): Promise<number> {
  const { io } = host
  const found = await findAdmin(args, host)
  if (typeof found === 'number') return found
  const { address, mask } = found
  let authorization: string | undefined
  try {
    authorization = args.basicFile === undefined ? undefined : readAuthorization(args.basicFile)
  } catch (error) {
    io.stderr(`sluice: ${args.basicFile}: ${readErrorText(error)}\n`)
    return EXIT.noInput
  }
  const { what } = args
  const asked =
    what === 'stats'
      ? GET_STATS
      : { method: 'POST', path: `/cache/purge?${serializePurge(what)}`, silenceMs: SILENCE_MS }
  let answer: AdminAnswer
  try {
    answer = await askAdmin(address, { ...asked, authorization })
  } catch (error) {
    io.stderr(`sluice: ${mask(describeAdminFailure(error, address))}\n`)
    return EXIT.unavailable
  }
  const value = answer.status === 200 ? parseJson(answer.text) : undefined
  if (value === undefined) {
    const said = answer.text.split('\n', 1)[0]?.trim() ?? ''
    const text = said === '' ? `${mask(serializeListenAddress(address))} answered ${answer.status}` : said
    const hint =
      answer.status === 401 && authorization === undefined ? '; pass them with --basic-file FILE' : ''
    io.stderr(`sluice: ${text}${hint}\n`)
    return EXIT.unavailable
  }
  if (args.json) io.stdout(`${JSON.stringify(value)}\n`)
  else if (what === 'stats') io.stdout(serializeStats(value as DocumentCache))
  else io.stdout(serializePurged((value as { purged: number }).purged))
  return EXIT.ok
}

/** @returns the address of the admin listener with what removes secrets from messages about it, or an exit code if it is not known */
async function findAdmin(
  { admin, config }: CacheArguments,
  host: ConfigurationHost,
): Promise<{ readonly address: ListenAddress; readonly mask: Mask } | number> {
  let address: ListenAddress | false
  let mask: Mask = text => text
  if (admin !== undefined) address = parseSingleAddress(admin)
  else {
    const loaded = await readConfiguration(config, host)
    if (loaded === undefined) return EXIT.config
    address = loaded.config.listen.admin
    mask = loaded.mask
  }
  const problem = unreachable(address)
  if (problem === undefined && address !== false) return { address, mask }
  host.io.stderr(`sluice: ${mask(problem ?? '')}\n`)
  return address === false ? EXIT.unavailable : EXIT.usage
}

/** @throws the system's error, or a RangeError if the file holds something else */
function readAuthorization(file: string): string {
  const credentials = parseUserPassword(readFileSync(file, 'utf8'))
  if (credentials === undefined) throw new RangeError(NO_USER_PASSWORD)
  return serializeBasic(credentials)
}

/** Longer than a purge of many files takes. */
const SILENCE_MS = 65_000
const GET_STATS: AdminRequest = { method: 'GET', path: '/cache/stats', silenceMs: SILENCE_MS }

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function serializePurged(purged: number): string {
  return `${purged} ${purged === 1 ? 'response was' : 'responses were'} purged\n`
}

function serializeStats(cache: DocumentCache): string {
  const { store, up, entries, bytes, size_bytes: size, evictions, requests, hit_ratio: ratio } = cache
  const counts = Object.entries(requests).filter(([, count]) => count > 0)
  const rows: (readonly [string, string])[] = [
    ['store', up ? store : `${store}, which cannot be used now`],
    ['responses', String(entries)],
    ['bytes', size === null ? String(bytes) : `${bytes} of ${size}`],
    ['evicted', String(evictions)],
    ['hit ratio', ratio === null ? 'no request yet' : `${(ratio * 100).toFixed(1)} %`],
    ['bytes served', String(cache.served_bytes)],
    ...counts.map(([result, count]) => [`  ${result}`, String(count)] as const),
  ]
  const width = Math.max(...rows.map(([name]) => name.length)) + 2
  return rows.map(([name, value]) => `${name.padEnd(width)}${value}\n`).join('')
}

/** The options under their names on the command line. */
interface CacheOptions {
  readonly action: 'stats' | 'purge'
  readonly url?: string | undefined
  readonly host?: string | undefined
  readonly all?: boolean | undefined
  readonly admin?: string | undefined
  readonly config?: string | undefined
  readonly 'basic-file'?: string | undefined
  readonly json: boolean
}

/** @param done receives the exit code */
export function cacheCommand(host: ConfigurationHost, done: (code: number) => void): Command<CacheOptions> {
  return {
    builder: yargs =>
      withAdminOptions(
        yargs
          .positional('action', {
            choices: ['stats', 'purge'] as const,
            demandOption: true,
            describe:
              'stats shows what is stored and the results of requests, purge removes stored responses',
          })
          .positional('url', { type: 'string', describe: 'what to purge: the URL that clients ask for' })
          .option('host', {
            type: 'string',
            requiresArg: true,
            describe: 'purge everything of a host, whatever the port',
          })
          .option('all', { type: 'boolean', describe: 'purge everything' }),
      )
        .option('basic-file', {
          type: 'string',
          requiresArg: true,
          describe: 'file with user:password in one line, if the admin listener requires them',
        })
        .option('json', { type: 'boolean', default: false, describe: 'print one JSON object' })
        .check(args => {
          parseArguments(args)
          return true
        }),
    handler: async args => done(await runCache(parseArguments(args), host)),
  }
}

/**
 * Yargs makes a list of an option that is repeated.
 *
 * @throws RangeError with one clause for the user
 */
function parseArguments(args: Readonly<Record<string, unknown>>): CacheArguments {
  checkGivenOnce(args, ['host', 'all', 'admin', 'config', 'basic-file', 'json'])
  checkAdminOptions(args)
  const {
    action,
    url,
    host,
    all,
    admin,
    config,
    'basic-file': basicFile,
    json,
  } = args as unknown as CacheOptions
  const given = [url, host, all === true ? all : undefined].filter(each => each !== undefined)
  if (action === 'stats') {
    if (given.length > 0) throw new RangeError('cache stats takes neither a URL nor --host or --all')
    return { what: 'stats', admin, config, basicFile, json }
  }
  if (given.length !== 1) throw new RangeError('cache purge needs one of a URL, --host and --all')
  return { what: purgeOf(url, host), admin, config, basicFile, json }
}

function purgeOf(url: string | undefined, host: string | undefined): Purge {
  if (url !== undefined) return { kind: 'uri', uri: parseCacheUri(url) }
  return host === undefined ? { kind: 'all' } : { kind: 'host', host: parsePurgedHost(host) }
}
