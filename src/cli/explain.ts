/**
 * `sluice explain URL`: what the proxy would do with a request and why, without a proxy that runs: client, rules, DNS
 * and addresses, each with its place in the configuration file. `sluice explain REASON`: what a `reason` of the log means.
 */
import { nearest } from '../config/nearest.js'
import { REASONS } from '../observe/reasons.js'
import { NoProxy } from '../policy/no-proxy.js'
import { createPolicy } from '../pipeline/create-policy.js'
import { NO_DESCRIPTOR_KEPT } from '../limits/descriptors.js'
import { Lookups, type NameEnvironment } from '../dns/resolve.js'
import { readConfiguration } from '../run/configuration.js'
import type { Command } from './command.js'
import { EXIT, type Io, paint } from '../run/io.js'
import { type Explanation, explainRequest, findClient, requestLineOf } from '../advice/explanation.js'
import { serializeExplanation, serializeExplanationJson } from '../advice/explanation-report.js'

export interface ExplainArguments {
  readonly url: string
  readonly config?: string | undefined
  /** An IP address, the name of an entry of `clients`, or `unix`. */
  readonly client: string
  readonly method?: string | undefined
  readonly json: boolean
}

/** What the command needs of the world. */
export interface ExplainHost extends NameEnvironment {
  readonly io: Io
  /** Whether standard output takes colour. */
  readonly color: boolean
  /** Variables of the process. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Milliseconds, monotonic. */
  readonly now?: () => number
}

/** What a verdict is to whoever started the command. */
const EXIT_OF = {
  allow: EXIT.ok,
  would_deny: EXIT.ok,
  deny: EXIT.denied,
  invalid: EXIT.denied,
  dns_failed: EXIT.temporary,
} as const satisfies Record<Explanation['verdict'], number>

/**
 * @returns the exit code: 0 allowed, 1 refused, 75 when DNS failed; 64 and 78 when nothing could be explained
 * @throws RangeError when the URL is none that a request can be made of
 */
export async function runExplain(args: ExplainArguments, host: ExplainHost): Promise<number> {
  const { io } = host
  const reason = explainReason(args)
  if (reason !== undefined) {
    io.stdout(reason)
    return EXIT.ok
  }
  const loaded = await readConfiguration(args.config, io)
  if (loaded === undefined) return EXIT.config
  const { config } = loaded
  let client: Explanation['client']
  try {
    client = findClient(config.clients, args.client)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    io.stderr(`sluice: ${error.message}\nTry sluice --help.\n`)
    return EXIT.usage
  }
  const now = host.now ?? (() => performance.now())
  const resolving = { system: { environment: host.environment ?? {} }, ...host }
  const names = new Lookups(config, resolving).names(config, { now, descriptors: NO_DESCRIPTOR_KEPT })
  const explanation = await explainRequest(requestLineOf(args.url, args.method), client, {
    config,
    policy: createPolicy(config),
    noProxy: config.parent && new NoProxy(config.parent.noProxy),
    resolver: names.resolver,
    now,
  })
  names.close()
  const source = { loaded, file: args.config }
  io.stdout(
    args.json
      ? serializeExplanationJson(explanation, source)
      : serializeExplanation(explanation, source, (color, text) => paint(host, color, text)),
  )
  return EXIT_OF[explanation.verdict]
}

/** @returns undefined for what is no reason; no reason could be a request, which has a scheme or a port */
function explainReason({ url, json }: ExplainArguments): string | undefined {
  const found = REASONS.get(url)
  if (found === undefined) return undefined
  const means = found.means.replaceAll('`', '')
  const keys = found.keys?.replaceAll('`', '')
  if (json) return `${JSON.stringify({ reason: url, means, keys: keys ?? null })}\n`
  return `${url}: ${means}\n  decided by: ${keys ?? 'no key of the configuration'}\n`
}

/** @param done gets the exit code */
export function explainCommand(host: ExplainHost, done: (code: number) => void): Command<ExplainArguments> {
  return {
    builder: yargs =>
      yargs
        .positional('url', {
          type: 'string',
          demandOption: true,
          describe:
            'https://HOST/ or HOST:PORT for a CONNECT, http://HOST/ for a forwarded request; or a reason of the log',
        })
        .option('config', {
          type: 'string',
          requiresArg: true,
          describe: 'configuration file (YAML); without it the defaults of config/default.yaml hold',
        })
        .option('client', {
          type: 'string',
          requiresArg: true,
          default: '127.0.0.1',
          describe: 'who asks: an IP address, the name of an entry of clients, or unix',
        })
        .option('method', {
          type: 'string',
          requiresArg: true,
          describe: 'method of a forwarded request; GET when left out',
        })
        .option('json', { type: 'boolean', default: false, describe: 'print one JSON object' })
        .check(checkOptions),
    handler: async args => done(await runExplain(args, host)),
  }
}

/**
 * Yargs takes a repeated option for a list.
 *
 * @throws RangeError with one clause for whoever wrote the command line
 */
function checkOptions(args: Readonly<Record<string, unknown>>): true {
  for (const name of ['config', 'client', 'method']) {
    if (Array.isArray(args[name])) throw new RangeError(`--${name} can be given once only`)
  }
  if (args['config'] === '') throw new RangeError('--config needs the name of a file')
  const { url, method } = args as Pick<ExplainArguments, 'url' | 'method'>
  if (REASONS.has(url)) return true
  try {
    requestLineOf(url, method)
  } catch (error) {
    if (!(error instanceof RangeError) || !WORD.test(url)) throw error
    const meant = nearest(url, REASONS.keys())
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`
    throw new RangeError(
      `"${url}" is neither a request nor a reason of the log${hint || '.'} For a request ${error.message}`,
    )
  }
  return true
}

/** What could be a reason, and no request as it is. */
const WORD = /^\w+$/
