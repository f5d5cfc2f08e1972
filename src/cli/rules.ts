/** `sluice rules`: drafts the rules that the requests of a log need, for the operator to review. */
import { createReadStream } from 'node:fs'
import { EXPECTED_NAME, isName } from '../config/fields.js'
import { readErrorText } from '../config/file-reader.js'
import { isMethod } from '../http/method.js'
import { type DraftedRule, draftRules, serializeRules } from '../advice/draft-rules.js'
import { LogSummary, readLogLines } from '../advice/log-reader.js'
import { checkGivenOnce, type Command } from './command.js'
import { EXIT, type Io } from '../run/io.js'
import { listedWords, type StandardInput } from './listed-words.js'

export interface RulesArguments {
  /** Names of files; `-`, or an empty list, is standard input. */
  readonly logs: readonly string[]
  readonly client?: string | undefined
  /** The number of names below one parent from which they are replaced by a wildcard. */
  readonly groupFrom?: number | undefined
}

/** What the command needs from the process. */
export type RulesHost = StandardInput & { readonly io: Io }

/** @returns the exit code: 65 if the logs contain no decision, 66 if one of them cannot be read */
export async function runRules(args: RulesArguments, { io, stdin }: RulesHost): Promise<number> {
  const summary = new LogSummary(args.client)
  for (const log of args.logs.length === 0 ? ['-'] : new Set(args.logs)) {
    try {
      await readLogLines(log === '-' ? stdin.open() : createReadStream(log), line => summary.add(line))
    } catch (error) {
      io.stderr(`sluice: ${log === '-' ? 'standard input' : log}: ${readErrorText(error)}\n`)
      return EXIT.noInput
    }
  }
  if (summary.noEvents > 0)
    io.stderr(`sluice: ${summary.noEvents} of ${summary.lines} lines are not events\n`)
  if (summary.decisions === 0) {
    io.stderr(`sluice: ${nothingFound(args, summary)}\n`)
    return EXIT.data
  }
  const rules = draftRules(summary.passed, { groupFrom: args.groupFrom })
  for (const remark of remarks(summary, rules)) io.stderr(`sluice: ${remark}\n`)
  io.stdout(serializeRules(rules))
  return EXIT.ok
}

function nothingFound({ client }: RulesArguments, { clients }: LogSummary): string {
  if (client !== undefined && clients.count > 0) {
    return `no decision about the client ${client}; there are events of ${clients.text}`
  }
  return 'no decision found; it takes a log of format json (log.format, or --log-format json) at level info'
}

/** What is not in the draft. */
function remarks(
  { denied, addressRefused, metadataRefused, notPublic }: LogSummary,
  rules: readonly DraftedRule[],
): string[] {
  const found: string[] = []
  if (rules.length === 0) found.push('nothing passed, so these rules allow nothing')
  const extra = new Set(rules.flatMap(({ methods = [] }) => methods.filter(method => !isMethod(method))))
  if (extra.size > 0) found.push(`methods.extra has to hold what these rules list: ${[...extra].join(', ')}`)
  if (denied > 0) found.push(`requests denied and left out: ${denied}`)
  if (addressRefused.count > 0) {
    found.push(
      `requests refused for an address that is not public: ${addressRefused.count}, to ${addressRefused.text}; ` +
        'a rule with those addresses is for you to write',
    )
  }
  if (metadataRefused.count > 0) {
    found.push(
      `requests refused to a metadata service, which hands out cloud credentials: ${metadataRefused.count}, ` +
        `to ${metadataRefused.text}; no rule is drafted for it`,
    )
  }
  if (notPublic.count > 0) {
    found.push(
      `reached at an address that is not public: ${notPublic.text}; ` +
        'add those to addresses of the rule, which are never drafted',
    )
  }
  return found
}

/** The options under their names on the command line. */
interface RulesOptions {
  readonly log: readonly string[]
  readonly client?: string | undefined
  readonly 'group-subdomains'?: string | undefined
}

const DEFAULT_GROUP = 3

/**
 * @param argv the complete command line, because yargs drops the word `-`
 * @param done receives the exit code
 */
export function rulesCommand(
  host: RulesHost,
  argv: readonly string[],
  done: (code: number) => void,
): Command<RulesOptions> {
  return {
    builder: yargs =>
      yargs
        .positional('log', {
          type: 'string',
          array: true,
          default: [],
          defaultDescription: 'standard input',
          describe: 'logs in JSON format; - is standard input',
        })
        .option('client', {
          type: 'string',
          requiresArg: true,
          describe: 'look at the events of this client alone',
        })
        .option('group-subdomains', {
          type: 'string',
          describe: `write "*.parent" for so many names below one parent (${DEFAULT_GROUP} without a number)`,
        })
        .check(args => {
          const parsed = parseArguments(args, argv)
          if (parsed.logs.length > 0 || !host.stdin.terminal) return true
          throw new RangeError('rules needs a log: the name of a file, or a pipe')
        }),
    handler: async args => done(await runRules(parseArguments(args, argv), host)),
  }
}

/** @throws RangeError with one clause for the user */
function parseArguments(args: Readonly<Record<string, unknown>>, argv: readonly string[]): RulesArguments {
  checkGivenOnce(args, ['client', 'group-subdomains'])
  const { log, client, 'group-subdomains': group } = args as unknown as RulesOptions
  if (client !== undefined && !isName(client)) throw new RangeError(`--client: ${EXPECTED_NAME}`)
  const logs = listedWords(log, args, argv)
  if (group === undefined) return { logs, client }
  // The number is optional; without it, the word after the option is the first log.
  if (group !== '' && !/^\d+$|^-./.test(group))
    return { logs: [...logs, group], client, groupFrom: DEFAULT_GROUP }
  const groupFrom = group === '' ? DEFAULT_GROUP : Number(group)
  if (!(groupFrom >= 2)) throw new RangeError('--group-subdomains takes a number from 2 on')
  return { logs, client, groupFrom }
}
