/** The score of the caching tests. */
import t from 'tap'
import { EXCEPTIONS, exceptionOf, unknownIds } from './exceptions.js'
import { compare, judge, passing, type Results, scoreOf, type SuiteTest } from './score.js'
import { isTargeted, TARGETED } from './targeted.js'

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

t.test('a test passes if its result is true, and tests for browsers are not counted', async t => {
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

t.test('a test that depends on a failed one, directly or indirectly, has failed', async t => {
  const failed = { ...ALL, base: ['Assertion', 'no'] } as const
  t.same(verdicts(failed), { base: 'fail', above: 'dependency', top: 'dependency', look: 'pass' })
  t.same(judge(TESTS, failed)[2]?.message, 'not passed: above')
  t.match(verdicts({ ...ALL, look: ['Assertion', 'no'] }), { above: 'pass', top: 'dependency' })
})

t.test('a failure says what was found, and an error of the client has its name', async t => {
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

t.test('a suite with inconsistent dependencies is refused', async t => {
  const lacks = [{ id: 'a', name: 'a', depends_on: ['b'] }]
  t.throws(() => judge(lacks, { a: true }), { message: 'a depends on b, which does not exist' })
  const circle = [...lacks, { id: 'b', name: 'b', depends_on: ['a'] }]
  t.throws(() => judge(circle, { a: true, b: true }), { message: 'a depends on itself' })
})

t.test('a cache must pass what it has passed before, except for checks', async t => {
  t.same(passing(judge(TESTS, ALL)), ['above', 'base', 'top'])
})

t.test('a test that passed before and fails now is lost, a newly passed one is gained', async t => {
  const outcomes = judge(TESTS, { ...ALL, top: ['Assertion', 'no'] })
  t.same(compare(['base', 'top', 'gone'], outcomes), { lost: ['top', 'gone'], gained: ['above'] })
})

t.test(
  'exceptions do not count as passed, and are single tests or all tests with a common prefix',
  async t => {
    const tests = ['age-parse-float', 'age-parse-suffix', 'surrogate-max-age'].map(id => ({ id, name: id }))
    const outcomes = judge(tests, Object.fromEntries(tests.map(({ id }) => [id, true])))
    t.same(passing(outcomes), ['age-parse-suffix'])
    t.same(
      tests.map(({ id }) => exceptionOf(id)?.ids.includes(id)),
      [true, undefined, false],
    )
    const [first = '', ...others] = EXCEPTIONS.flatMap(({ ids }) => ids)
    t.same(unknownIds(['surrogate-x', ...others]), [first])
  },
)

t.test('the tests of CDN-Cache-Control have unique ids, and there are at least ten of each kind', async t => {
  const ids = TARGETED.map(({ id }) => id)
  t.same(new Set(ids).size, ids.length)
  t.ok(ids.every(id => id.startsWith('cdn-') && isTargeted(id) && exceptionOf(id) === undefined))
  for (const kind of ['required', 'optimal']) {
    t.ok(TARGETED.filter(test => test.kind === kind).length >= 10, kind)
  }
})
