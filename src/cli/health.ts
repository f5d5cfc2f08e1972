/**
 * `sluice health`: whether a proxy runs and responds, for the health checks of containers. It reads only the address of the admin
 * listener from the configuration, because a file that became invalid after the start does not affect the running proxy.
 */
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import {
  DEFAULT_ADMIN,
  type ListenAddress,
  parseSingleAddress,
  serializeListenAddress,
} from '../config/listen-address.js'
import { ConfigError, formatProblem } from '../config/problem.js'
import { readBytes, unreadable } from '../config/yaml-file.js'
import { readYaml, valueAt } from '../config/yaml-tree.js'
import { Secrets } from '../config/secrets.js'
import type { Variables } from '../config/variables.js'
import { EXIT, type Io } from '../run/io.js'
import {
  askAdmin,
  checkAdminOptions,
  describeAdminFailure,
  unreachable,
  withAdminOptions,
} from './admin-client.js'
import { checkGivenOnce, type Command } from './command.js'

/** How the admin listener is found: by the address, otherwise by the file, the process, or the default. */
export interface HealthArguments {
  readonly admin?: string | undefined
  readonly config?: string | undefined
  /** The process id of the proxy, whose command line is read. */
  readonly pid?: number | undefined
  /** Whether to check that the proxy accepts requests, which it does not while it drains, rather than that it is alive. */
  readonly ready: boolean
}

/** What the command needs from the process. */
export interface HealthHost {
  readonly io: Io
  /** The environment variables of this process, which the file may refer to. */
  readonly environment?: Variables
  /** Reads the command line of a process; by default from /proc. */
  readonly commandLineOf?: (pid: number) => Promise<readonly string[]>
}

/** Less than the usual timeout of a container's health check. */
const SILENCE_MS = 2500

/** @returns the exit code: 0 if healthy, 1 if not; 64 if the address is not known, 78 if the file cannot be read */
export async function runHealth(args: HealthArguments, host: HealthHost): Promise<number> {
  const { io } = host
  const secrets = new Secrets()
  const fail = (text: string, code: number): number => {
    io.stderr(`sluice: ${secrets.mask(text)}\n`)
    return code
  }
  let address: ListenAddress | false
  try {
    address = await findAdmin(args, host, secrets)
  } catch (error) {
    if (error instanceof ConfigError) {
      return fail(error.problems.map(problem => formatProblem(error.file, problem)).join(' '), EXIT.config)
    }
    if (error instanceof RangeError) return fail(error.message, EXIT.usage)
    throw error
  }
  const problem = unreachable(address)
  if (address === false) return fail(problem ?? '', EXIT.denied)
  if (problem !== undefined) return fail(problem, EXIT.usage)
  const path = args.ready ? '/ready' : '/health'
  try {
    const { status, text } = await askAdmin(address, { method: 'GET', path, silenceMs: SILENCE_MS })
    const place = serializeListenAddress(address)
    const [said = ''] = text.trim().split('\n', 1)
    if (status === 200) {
      io.stdout(`${args.ready ? 'ready' : 'healthy'}: ${secrets.mask(place)}\n`)
      return EXIT.ok
    }
    return fail(`${place} answered ${path} with ${status}${said === '' ? '' : `: ${said}`}`, EXIT.denied)
  } catch (error) {
    return fail(describeAdminFailure(error, address), EXIT.denied)
  }
}

/**
 * @param secrets gets those of the file
 * @throws ConfigError if the file cannot be read
 * @throws RangeError if the command line of the process cannot be read, or an address is invalid
 */
async function findAdmin(
  args: HealthArguments,
  host: HealthHost,
  secrets: Secrets,
): Promise<ListenAddress | false> {
  const { pid } = args
  const started = pid === undefined ? {} : optionsOf(await commandLine(pid, host))
  const admin = args.admin ?? (args.config === undefined ? started.admin : undefined)
  if (admin !== undefined) return parseSingleAddress(admin)
  const config = args.config ?? started.config
  const written = config === undefined ? undefined : await readAdmin(config, secrets, host.environment)
  return written ?? parseSingleAddress(DEFAULT_ADMIN)
}

async function commandLine(
  pid: number,
  { commandLineOf = readCommandLine }: HealthHost,
): Promise<readonly string[]> {
  try {
    return await commandLineOf(pid)
  } catch {
    throw new RangeError(`--pid ${pid}: the command line of this process cannot be read`)
  }
}

async function readCommandLine(pid: number): Promise<readonly string[]> {
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1)
}

const PROGRAM = new Set(['sluice', 'bin.js'])
const OPTION = /^(?:--(admin|config)|-(c))(?:=(.*))?$/s

/** The options of this program in a command line that may begin with another program: node, or the init of a container. */
function optionsOf(words: readonly string[]): { readonly admin?: string; readonly config?: string } {
  const options: { admin?: string; config?: string } = {}
  const start = words.findIndex(word => PROGRAM.has(basename(word)))
  const own = words.slice(start + 1)
  for (const [index, word] of own.entries()) {
    const [, long, short, written] = OPTION.exec(word) ?? []
    const value = written ?? own[index + 1]
    if ((long ?? short) === undefined || value === undefined) continue
    options[long === 'admin' ? 'admin' : 'config'] = value
  }
  return options
}

/**
 * @returns undefined if the file does not set it, or sets an invalid value: the running proxy was started with another text
 *   then
 * @throws ConfigError if the file cannot be read
 */
async function readAdmin(
  file: string,
  secrets: Secrets,
  variables: Variables = {},
): Promise<ListenAddress | false | undefined> {
  let text: string
  try {
    text = (await readBytes(file)).toString('utf8')
  } catch (error) {
    throw unreadable(file, error)
  }
  const admin = valueAt(readYaml(text, { variables, secrets }).root, 'listen', 'admin')
  const node = admin?.children.get('address') ?? admin
  if (node?.isFaulty === true) {
    throw new RangeError(
      `${file} names a variable for listen.admin that is not set here; say it with --admin`,
    )
  }
  const written = node?.value
  if (written === false || written === 'false') return false
  if (typeof written !== 'string') return undefined
  try {
    return parseSingleAddress(written)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** @param done receives the exit code */
export function healthCommand(host: HealthHost, done: (code: number) => void): Command<HealthArguments> {
  return {
    builder: yargs =>
      withAdminOptions(yargs)
        .option('pid', {
          type: 'number',
          requiresArg: true,
          describe: 'process of the proxy, whose own --admin and --config count; 1 in a container',
        })
        .option('ready', {
          type: 'boolean',
          default: false,
          describe: 'ask whether it takes requests (/ready) instead of whether it is alive (/health)',
        })
        .check(checkOptions),
    handler: async args => done(await runHealth(args, host)),
  }
}

/** @throws RangeError with one clause for the user */
function checkOptions(args: Readonly<Record<string, unknown>>): true {
  checkGivenOnce(args, ['admin', 'config', 'pid', 'ready'])
  checkAdminOptions(args)
  const { pid } = args as Partial<HealthArguments>
  if (pid !== undefined && !(Number.isInteger(pid) && pid > 0))
    throw new RangeError('--pid takes a process id')
  return true
}
