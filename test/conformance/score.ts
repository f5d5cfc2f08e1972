/** Computes the score of the suite's results in the same way as cache-tests.fyi (lib/display.mjs of the suite). */

import { exceptionOf } from './exceptions.js'

/** `required` is required by RFC 9111, `optimal` is allowed by it, and a `check` only shows what a cache does. */
export const KINDS = ['required', 'optimal', 'check'] as const
export type Kind = (typeof KINDS)[number]

/** A test of the suite, as in its own files. */
export interface SuiteTest {
  readonly id: string
  readonly name: string
  /** `required` if absent. */
  readonly kind?: Kind
  /** Tests that must pass for this one to be meaningful. */
  readonly depends_on?: readonly string[]
  /** Whether it is for caches in browsers; then it is not run. */
  readonly browser_only?: boolean
}

/** The suite's result of a test that was run: true, or the name of an error and its message. */
export type Result = true | readonly [name: string, message: string | undefined]
export type Results = Readonly<Record<string, Result>>

/** `setup`: a condition of the test was not met. `dependency`: a test that it depends on did not pass. */
export type Verdict = 'pass' | 'fail' | 'setup' | 'retry' | 'dependency' | 'untested'

export interface Outcome {
  readonly id: string
  readonly kind: Kind
  readonly verdict: Verdict
  /** What was found instead of what was expected, or which dependencies did not pass; empty if it passed. */
  readonly message: string
}

/**
 * @param tests all tests of the suite; those for browsers only are left out
 * @returns the verdicts in the order of `tests`
 * @throws Error if a test depends on one that does not exist, or on itself
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
      if (other === undefined) throw new Error(`${test.id} depends on ${id}, which does not exist`)
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

/** @returns the ids that a cache must pass from now on: required or optimal tests that count and pass */
export function passing(outcomes: readonly Outcome[]): readonly string[] {
  return outcomes
    .filter(
      ({ id, kind, verdict }) => kind !== 'check' && verdict === 'pass' && exceptionOf(id) === undefined,
    )
    .map(({ id }) => id)
    .sort()
}

export interface Changes {
  /** Tests that passed before and do not pass now, including removed ones. */
  readonly lost: readonly string[]
  /** Tests that pass now and are not in the list yet. */
  readonly gained: readonly string[]
}

export function compare(kept: readonly string[], outcomes: readonly Outcome[]): Changes {
  const now = passing(outcomes)
  return { lost: kept.filter(id => !now.includes(id)), gained: now.filter(id => !kept.includes(id)) }
}
