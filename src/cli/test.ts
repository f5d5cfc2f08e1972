/**
 * `sluice test CASES...`: checks for CI whether a configuration allows and denies the requests in files of cases. It uses the same
 * code as `explain`, and sends DNS queries only with --dns.
 */
import { type Case, expectationText, judgeCase, parseCases } from '../advice/cases.js'
import { describeModes, observedClients } from '../config/client-modes.js'
import type { Config } from '../config/schema.js'
import { ConfigError, escapeUnprintable, formatProblem } from '../config/problem.js'
import { decodeUtf8, readBytes, unreadable } from '../config/yaml-file.js'
import { readConfiguration } from '../run/configuration.js'
import { EXIT, type Io, paint } from '../run/io.js'
import { checkFiles } from './check.js'
import { checkConfigName, checkGivenOnce, type Command } from './command.js'
import { createExplainer, type ExplainEnvironment, type Explainer } from './explainer.js'
import { inputOf, listedWords, type StandardInput } from './listed-words.js'

export interface TestArguments {
  /** Names of files; `-` is standard input. Never empty. */
  readonly files: readonly string[]
  readonly config?: string | undefined
  /** Whether names are resolved and their addresses judged. */
  readonly dns: boolean
}

/** What the command needs from the process. */
export interface TestHost extends ExplainEnvironment, StandardInput {
  readonly io: Io
  /** Whether standard output supports colour. */
  readonly color: boolean
}

interface CaseFile {
  readonly name: string
  readonly cases: readonly Case[]
}

/** @returns the exit code: 0 if every case is as expected, 1 if one is not, 78 if a file cannot be used */
export async function runTest(args: TestArguments, host: TestHost): Promise<number> {
  const { io } = host
  const loaded = await readConfiguration(args.config, host)
  if (loaded === undefined) return EXIT.config
  const files: CaseFile[] = []
  let isUsable = true
  for (const file of new Set(args.files)) {
    const read = await readCases(file, loaded.config, host)
    if (read === undefined) isUsable = false
    else files.push(read)
  }
  if (!isUsable) return EXIT.config
  if (observedClients(loaded.config).length > 0) {
    const modes = describeModes(loaded.config)
    io.stderr(`sluice: mode is ${modes}: what would be denied counts as denied here, though it passes\n`)
  }
  const explainer = createExplainer(loaded, host, args.dns)
  let failed = 0
  try {
    for (const file of files) failed += await judgeFile(file, explainer, host)
  } finally {
    explainer.close()
  }
  const count = files.reduce((sum, { cases }) => sum + cases.length, 0)
  io.stdout(
    `${count} ${count === 1 ? 'case' : 'cases'}, ${failed === 0 ? 'all as expected' : `${failed} failed`}\n`,
  )
  return failed === 0 ? EXIT.ok : EXIT.denied
}

/** @returns undefined if the file cannot be used, after every reason has been printed */
async function readCases(file: string, config: Config, host: TestHost): Promise<CaseFile | undefined> {
  const { name, input } = inputOf(file, host)
  try {
    return { name, cases: parseCases(await readText(name, input), name, config) }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) host.io.stderr(`${formatProblem(name, problem)}\n`)
    return undefined
  }
}

/** @throws ConfigError if the file cannot be read */
async function readText(name: string, input: ReturnType<typeof inputOf>['input']): Promise<string> {
  let bytes: Buffer
  try {
    bytes = await readBytes(name, { input })
  } catch (error) {
    throw unreadable(name, error)
  }
  return decodeUtf8(bytes, name)
}

/** Prints a line for each case. @returns how many are not as expected */
async function judgeFile({ name, cases }: CaseFile, explainer: Explainer, host: TestHost): Promise<number> {
  let failed = 0
  for (const each of cases) {
    const { request, clientText, client, line } = each
    const { passed, found } = judgeCase(each, await explainer.explain(request, client))
    if (!passed) failed += 1
    const word = passed ? paint(host, 'green', 'ok  ') : paint(host, 'red', 'FAIL')
    const asked = `${name}:${line}: ${request.method} ${request.target} for ${clientText}`
    const outcome = passed ? found : `expected ${expectationText(each)}, found ${found}`
    host.io.stdout(`${word} ${escapeUnprintable(`${asked}: ${outcome}`)}\n`)
  }
  return failed
}

/** The options under their names on the command line. */
interface TestOptions {
  readonly cases: readonly string[]
  readonly config?: string | undefined
  readonly dns: boolean
}

/**
 * @param argv the complete command line, because yargs drops the word `-`
 * @param done receives the exit code
 */
export function testCommand(
  host: TestHost,
  argv: readonly string[],
  done: (code: number) => void,
): Command<TestOptions> {
  const filesOf = (args: Readonly<Record<string, unknown>>): string[] =>
    listedWords((args['cases'] ?? []) as string[], args, argv)
  return {
    builder: yargs =>
      yargs
        .positional('cases', {
          type: 'string',
          array: true,
          default: [],
          defaultDescription: 'one is needed',
          describe:
            'YAML files, each a list of { url, client?, method?, expect: allow|deny, reason?, rule? }',
        })
        .option('config', {
          alias: 'c',
          type: 'string',
          requiresArg: true,
          describe: 'configuration file (YAML); without it the defaults of config/default.yaml hold',
        })
        .option('dns', {
          type: 'boolean',
          default: false,
          describe: 'resolve names, and judge their addresses too',
        })
        .check(args => {
          checkGivenOnce(args, ['config'])
          checkConfigName(args)
          return checkFiles('test', filesOf(args))
        }),
    handler: async args => done(await runTest({ ...args, files: filesOf(args) }, host)),
  }
}
