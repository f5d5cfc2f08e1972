/**
 * Test cases of a configuration for CI: requests with the decision that is expected for each. The file is a YAML list, and its
 * problems are reported like those of a configuration.
 */
import * as z from 'zod'
import { list, name, oneOf, section, text } from '../config/fields.js'
import type { Path } from '../config/problem.js'
import type { Config } from '../config/schema.js'
import { configError, faultsOfIssues, Texts } from '../config/yaml-file.js'
import { type Fault, type Located, readYaml, valueAt } from '../config/yaml-tree.js'
import { type Explanation, requestLineOf } from './explanation.js'
import { findClient } from './find-client.js'

const FILE = { noun: 'a file of cases', beginning: '`- url: https://example.com/`' }
const EXPECTED_REASON = 'expected a reason of a refusal, such as no_rule or port'

const caseSchema = section({
  url: text('a URL such as https://example.com/, or HOST:PORT'),
  client: text('an IP address, unix or the name of a client').default('127.0.0.1'),
  method: text('a method such as POST').optional(),
  expect: oneOf(['allow', 'deny']),
  reason: z
    .string({ error: EXPECTED_REASON })
    .regex(/^[a-z_]+$/, { error: EXPECTED_REASON })
    .optional(),
  rule: name.optional(),
})

const casesSchema = list(caseSchema, 'a list of maps with url and expect').min(1, {
  error: 'expected one case at least',
})

export interface Case {
  readonly request: Explanation['request']
  readonly client: Explanation['client']
  readonly expect: 'allow' | 'deny'
  /** The expected reason of the refusal. */
  readonly reason: string | undefined
  /** The expected rule: the one that allows the request, or the nearest one. */
  readonly rule: string | undefined
  /** The client as written in the file. */
  readonly clientText: string
  /** The line where the case begins, from 1. */
  readonly line: number
}

/**
 * @param source the text of the file
 * @param file the name of the file for messages
 * @param config whose clients the cases name
 * @throws ConfigError with all problems
 */
export function parseCases(source: string, file: string, config: Config): Case[] {
  const texts = new Texts(source)
  const { root, faults } = readYaml(source, { kind: FILE })
  if (root === undefined) throw configError(file, texts, faults)
  const result = casesSchema.safeParse(root.value)
  const all: Fault[] = [...faults, ...(result.success ? [] : faultsOfIssues(result.error.issues, root))]
  if (!result.success) throw configError(file, texts, all)
  const cases = result.data.flatMap((written, index) => {
    const fault = (error: unknown, ...path: Path): undefined => {
      if (!(error instanceof RangeError)) throw error
      all.push(faultAt(root, [index, ...path], error.message))
    }
    const attempt = <T>(key: string, read: () => T): T | undefined => {
      try {
        return read()
      } catch (error) {
        return fault(error, key)
      }
    }
    const { url, client: clientText, method, expect, reason, rule } = written
    const request = attempt('url', () => requestLineOf(url, method))
    const client = attempt('client', () => findClient(config.clients, clientText))
    if (expect === 'allow' && reason !== undefined) {
      all.push(faultAt(root, [index, 'reason'], 'a reason is of a refusal, and expect is allow'))
    }
    if (request === undefined || client === undefined) return []
    const { line } = texts.place(valueAt(root, index)?.start ?? 0)
    return [{ request, client, expect, reason, rule, clientText, line }]
  })
  if (all.length > 0) throw configError(file, texts, all)
  return cases
}

function faultAt(root: Located, path: Path, message: string): Fault {
  return { offset: valueAt(root, ...path)?.start ?? 0, path, message }
}

export interface Judgement {
  readonly passed: boolean
  /** The actual decision, in one clause. */
  readonly found: string
}

/**
 * Under `mode: observe`, a request that would be denied counts as denied: cases test the rules, which may be written before they
 * are enforced.
 */
export function judgeCase({ expect, reason, rule }: Case, explanation: Explanation): Judgement {
  const { verdict, refusal } = explanation
  if (verdict === 'dns_failed') return { passed: false, found: `DNS failed: ${refusal?.message ?? ''}` }
  const isAllowed = verdict === 'allow'
  const found = isAllowed
    ? `allow (rules.${explanation.rule})`
    : `deny (${refusal?.reason}: ${refusal?.message}${nearest(explanation)})`
  const passed =
    isAllowed === (expect === 'allow') &&
    (reason === undefined || reason === refusal?.reason) &&
    (rule === undefined || rule === explanation.rule)
  return { passed, found }
}

/** The nearest rule, unless the message names it. */
function nearest({ rule, refusal }: Explanation): string {
  return rule === undefined || refusal?.message.includes(`rules.${rule}`) ? '' : `, nearest rules.${rule}`
}

/** The expected decision, in one clause. */
export function expectationText({ expect, reason, rule }: Case): string {
  const details = [
    ...(reason === undefined ? [] : [reason]),
    ...(rule === undefined ? [] : [`rules.${rule}`]),
  ]
  return details.length === 0 ? expect : `${expect} (${details.join(', ')})`
}
