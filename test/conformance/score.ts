/** What the results of the suite amount to, counted as cache-tests.fyi does (lib/display.mjs of the suite). */

import { exceptionOf } from './exceptions.js'

/** `required` is asked by RFC 9111, `optimal` allowed by it, and a `check` only looks what a cache does. */
export const KINDS = ['required', 'optimal', 'check'] as const
export type Kind = (typeof KINDS)[number]

/** A test of the suite, as its own files have it. */
export interface SuiteTest {
  readonly id: string
  readonly name: string
  /** Absent: required. */
  readonly kind?: Kind
  /** Tests without which this one says nothing. */
  readonly depends_on?: readonly string[]
  /** Of caches in browsers: not run. */
  readonly browser_only?: boolean
}

/** What the suite says of a test that was run: true, or the name of an error and its message. */
export type Result = true | readonly [name: string, message: string | undefined]
export type Results = Readonly<Record<string, Result>>

/** `setup`: what a test presumes did not come about. `dependency`: a test that it depends on did not pass. */
export type Verdict = 'pass' | 'fail' | 'setup' | 'retry' | 'dependency' | 'untested'

export interface Outcome {
  readonly id: string
  readonly kind: Kind
  readonly verdict: Verdict
  /** What was found in place of what was expected, or which dependencies did not pass; empty where it passed. */
  readonly message: string
}

/**
 * @param tests all of the suite: those of browsers alone are left away
 * @returns in the order of `tests`
 * @throws Error when a test depends on one that there is not, or on itself
 */
export function judge(tests: readonly SuiteTest[], results: Results): readonly Outcome[] {
  const byId = new Map(tests.map(test => [test.id, test]))
  const known = new Map<string, Outcome>()
  const judgeOne = (test: SuiteTest, above: readonly string[]): Outcome => {
    const before = known.get(test.id)
    if (before !== undefined) return before
    if (above.includes(test.id)) throw new Error(`${test.id} depends on itself`)
    const lacking = (test.depends_on ?? []).filter(id => {
      const other = byId.get(id)
      if (other === undefined) throw new Error(`${test.id} depends on ${id}, which there is not`)
      return judgeOne(other, [...above, test.id]).verdict !== 'pass'
    })
    const outcome = judged(test, results[test.id], lacking)
    known.set(test.id, outcome)
    return outcome
  }
  return tests.filter(test => test.browser_only !== true).map(test => judgeOne(test, []))
}

function judged(test: SuiteTest, result: Result | undefined, lacking: readonly string[]): Outcome {
  const { id, kind = 'required' } = test
  if (result === undefined) return { id, kind, verdict: 'untested', message: 'was not run' }
  if (lacking.length > 0)
    return { id, kind, verdict: 'dependency', message: `not passed: ${lacking.join(', ')}` }
  if (result === true) return { id, kind, verdict: 'pass', message: '' }
  const [name, message = ''] = result
  if (name === 'Setup') return { id, kind, verdict: message === 'retry' ? 'retry' : 'setup', message }
  return { id, kind, verdict: 'fail', message: name === 'Assertion' ? message : `${name}: ${message}` }
}

export interface Score {
  readonly passed: number
  readonly of: number
}

export function scoreOf(outcomes: readonly Outcome[], kind: Kind): Score {
  const those = outcomes.filter(outcome => outcome.kind === kind)
  return { passed: those.filter(({ verdict }) => verdict === 'pass').length, of: those.length }
}

/** @returns the ids that a cache is held to: of what is required or optimal, and counted, what passes */
export function passing(outcomes: readonly Outcome[]): readonly string[] {
  return outcomes
    .filter(
      ({ id, kind, verdict }) => kind !== 'check' && verdict === 'pass' && exceptionOf(id) === undefined,
    )
    .map(({ id }) => id)
    .sort()
}

export interface Changes {
  /** Passed once and do not now; a test that there is no more is among them. */
  readonly lost: readonly string[]
  /** Pass now, and are not held to yet. */
  readonly gained: readonly string[]
}

export function compare(kept: readonly string[], outcomes: readonly Outcome[]): Changes {
  const now = passing(outcomes)
  return { lost: kept.filter(id => !now.includes(id)), gained: now.filter(id => !kept.includes(id)) }
}
