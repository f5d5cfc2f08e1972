/** The score of the suite of caching tests. */
import t from 'tap'
import { compare, judge, passing, type Results, scoreOf, type SuiteTest } from './score.js'

const TESTS: readonly SuiteTest[] = [
  { id: 'base', name: 'b', depends_on: [] },
  { id: 'above', name: 'a', kind: 'optimal', depends_on: ['base'] },
  { id: 'top', name: 't', kind: 'required', depends_on: ['above', 'look'] },
  { id: 'look', name: 'l', kind: 'check' },
  { id: 'page', name: 'p', browser_only: true },
]

const ALL: Results = { base: true, above: true, top: true, look: true }

function verdicts(results: Results): Record<string, string> {
  return Object.fromEntries(judge(TESTS, results).map(({ id, verdict }) => [id, verdict]))
}

t.test('a test passes when its result is true, and those of browsers are not counted', async t => {
  const outcomes = judge(TESTS, ALL)
  t.same(
    outcomes.map(({ id, verdict, message }) => [id, verdict, message]),
    ['base', 'above', 'top', 'look'].map(id => [id, 'pass', '']),
  )
  t.same(scoreOf(outcomes, 'required'), { passed: 2, of: 2 })
  t.same(scoreOf(outcomes, 'optimal'), { passed: 1, of: 1 })
  t.same(scoreOf(outcomes, 'check'), { passed: 1, of: 1 })
})

t.test('a test without a kind is required', async t => {
  t.equal(judge(TESTS, ALL)[0]?.kind, 'required')
})

t.test('what depends on a test that did not pass has not passed, at any distance', async t => {
  const failed = { ...ALL, base: ['Assertion', 'no'] } as const
  t.same(verdicts(failed), { base: 'fail', above: 'dependency', top: 'dependency', look: 'pass' })
  t.same(judge(TESTS, failed)[2]?.message, 'not passed: above')
  t.match(verdicts({ ...ALL, look: ['Assertion', 'no'] }), { above: 'pass', top: 'dependency' })
})

t.test('a failure says what was found, and an error of the client its name', async t => {
  const outcomes = judge(TESTS, {
    base: ['Setup', 'retry'],
    above: ['Assertion', 'x'],
    look: ['FetchError', 'reset'],
  })
  t.match(outcomes, [
    { id: 'base', verdict: 'retry', message: 'retry' },
    { id: 'above', verdict: 'dependency' },
    { id: 'top', verdict: 'untested', message: 'was not run' },
    { id: 'look', verdict: 'fail', message: 'FetchError: reset' },
  ])
  const [setup] = judge(TESTS, { base: ['Setup', 'Response 1 status is 502, not 200'] })
  t.match(setup, { verdict: 'setup', message: 'Response 1 status is 502, not 200' })
  t.match(judge(TESTS, { look: ['TypeError', undefined] })[3], { verdict: 'fail', message: 'TypeError: ' })
})

t.test('a suite whose dependencies do not hold together is refused', async t => {
  const lacks = [{ id: 'a', name: 'a', depends_on: ['b'] }]
  t.throws(() => judge(lacks, { a: true }), { message: 'a depends on b, which there is not' })
  const circle = [...lacks, { id: 'b', name: 'b', depends_on: ['a'] }]
  t.throws(() => judge(circle, { a: true, b: true }), { message: 'a depends on itself' })
})

t.test('a cache is held to what it passed, but for checks', async t => {
  t.same(passing(judge(TESTS, ALL)), ['above', 'base', 'top'])
})

t.test('what passed once and does not now is lost, and what is new is gained', async t => {
  const outcomes = judge(TESTS, { ...ALL, top: ['Assertion', 'no'] })
  t.same(compare(['base', 'top', 'gone'], outcomes), { lost: ['top', 'gone'], gained: ['above'] })
})
