/**
 * `sluice explain URL...`: how the proxy would decide on requests and why, without a running proxy: client, rules, DNS and
 * addresses, each with its position in the configuration file. `sluice explain REASON...`: what a `reason` of the log means.
 */
import { nearest } from '../config/nearest.js'
import { REASONS } from '../observe/reasons.js'
import { readConfiguration } from '../run/configuration.js'
import { checkConfigName, checkGivenOnce, type Command } from './command.js'
import { EXIT, type Io, paint } from '../run/io.js'
import { type Explanation, requestLineOf } from '../advice/explanation.js'
import { findClient } from '../advice/find-client.js'
import { serializeExplanation, serializeExplanationJson } from '../advice/explanation-report.js'
import { createExplainer, type ExplainEnvironment } from './explainer.js'

export interface ExplainArguments {
  /** Never empty. */
  readonly urls: readonly string[]
  readonly config?: string | undefined
  /** An IP address, the name of an entry of `clients`, or `unix`. */
  readonly client: string
  readonly method?: string | undefined
  readonly json: boolean
}

/** What the command needs from the process. */
export interface ExplainHost extends ExplainEnvironment {
  readonly io: Io
  /** The command that starts this program, for hints. */
  readonly command: string
  /** Whether standard output supports colour. */
  readonly color: boolean
}

/** The exit code of each verdict. */
const EXIT_OF = {
  allow: EXIT.ok,
  would_deny: EXIT.ok,
  deny: EXIT.denied,
  invalid: EXIT.denied,
  dns_failed: EXIT.temporary,
} as const satisfies Record<Explanation['verdict'], number>

/** Of several requests the worst verdict counts: a refusal first, then a failure of DNS. */
const WORST_FIRST = [EXIT.denied, EXIT.temporary, EXIT.ok] as const

/**
 * @returns the exit code: 0 if all are allowed, 1 if one is refused, otherwise 75 if DNS failed; 64 and 78 if nothing could be
 *   explained
 * @throws RangeError if a URL cannot be the target of a request
 */
export async function runExplain(args: ExplainArguments, host: ExplainHost): Promise<number> {
  const { io, command } = host
  if (args.urls.every(word => REASONS.has(word))) {
    for (const reason of args.urls) io.stdout(explainReason(reason, args.json))
    return EXIT.ok
  }
  const loaded = await readConfiguration(args.config, host)
  if (loaded === undefined) return EXIT.config
  const { config } = loaded
  let client: Explanation['client']
  try {
    client = findClient(config.clients, args.client)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    io.stderr(`sluice: --client: ${error.message}\nTry ${command} --help.\n`)
    return EXIT.usage
  }
  const requests = args.urls.map(url => requestLineOf(url, args.method))
  const explainer = createExplainer(loaded, host, true)
  const source = { loaded, file: args.config }
  const codes = new Set<number>()
  try {
    for (const [index, request] of requests.entries()) {
      const explanation = await explainer.explain(request, client)
      codes.add(EXIT_OF[explanation.verdict])
      if (args.json) io.stdout(serializeExplanationJson(explanation, source))
      else {
        const text = serializeExplanation(explanation, source, (color, text) => paint(host, color, text))
        io.stdout(index === 0 ? text : `\n${text}`)
      }
    }
  } finally {
    explainer.close()
  }
  return WORST_FIRST.find(code => codes.has(code)) ?? EXIT.ok
}

function explainReason(reason: string, json: boolean): string {
  const found = REASONS.get(reason)
  const means = found?.means.replaceAll('`', '') ?? ''
  const keys = found?.keys?.replaceAll('`', '')
  if (json) return `${JSON.stringify({ reason, means, keys: keys ?? null })}\n`
  return `${reason}: ${means}\n  decided by: ${keys ?? 'no key of the configuration'}\n`
}

/** The options under their names on the command line. */
type ExplainOptions = Omit<ExplainArguments, 'urls'> & { readonly url: readonly string[] }

/** @param done receives the exit code */
export function explainCommand(host: ExplainHost, done: (code: number) => void): Command<ExplainOptions> {
  return {
    builder: yargs =>
      yargs
        .positional('url', {
          type: 'string',
          array: true,
          demandOption: true,
          describe:
            'https://HOST/ or HOST:PORT for a CONNECT, http://HOST/ for a forwarded request; or reasons of the log',
        })
        .option('config', {
          alias: 'c',
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
        .option('json', {
          type: 'boolean',
          default: false,
          describe: 'print one JSON object a line for each URL',
        })
        .check(checkOptions),
    handler: async ({ url, ...args }) => done(await runExplain({ ...args, urls: url }, host)),
  }
}

/**
 * Yargs makes a list of an option that is repeated.
 *
 * @throws RangeError with one clause for the user
 */
function checkOptions(args: Readonly<Record<string, unknown>>): true {
  checkGivenOnce(args, ['config', 'client', 'method'])
  checkConfigName(args)
  const { url, method } = args as unknown as Pick<ExplainOptions, 'url' | 'method'>
  // A request is never a reason, because it has a scheme or a port.
  const reasons = url.filter(each => REASONS.has(each))
  if (reasons.length === url.length) return true
  for (const each of url.filter(each => !REASONS.has(each))) checkRequest(each, method)
  const [reason] = reasons
  if (reason !== undefined)
    throw new RangeError(
      `${reason} is a reason of the log; explain takes reasons or requests, not both at once`,
    )
  return true
}

/** @throws RangeError for what cannot be a request, with the reason that may be meant */
function checkRequest(url: string, method: string | undefined): void {
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
}

/** A word that may be a reason, and is not a request. */
const WORD = /^\w+$/
