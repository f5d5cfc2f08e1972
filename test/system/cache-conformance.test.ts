/** The suite of cache-tests.fyi through the built program: tests that passed before still pass, one by one. */
import t from 'tap'
import { readPasses } from '../conformance/passes.js'
import { startSuite, throughSluice, WAYS } from '../conformance/ways.js'
import { needs } from '../kit/processes/command.js'
import { needsBuild } from './program.js'

const skip = needs('npm', 'tar') || needsBuild()

t.test(
  'the recorded passes of http-cache-tests still pass (RFC 9111)',
  { skip, timeout: 180_000 },
  async t => {
    const suite = await startSuite(t, 0)
    // The suite mostly waits for responses to become stale.
    const runs = WAYS.map(async way => [way, await throughSluice(t, suite, way, 'memory')] as const)
    // If one fails, the others must have started their processes, or those would outlive the test.
    await Promise.allSettled(runs)
    for (const [way, outcomes] of await Promise.all(runs)) {
      await t.test(`as a ${way === 'forward' ? 'forward proxy' : way}`, async t => {
        const kept = await readPasses(way)
        t.ok(kept.length > 0, 'there is a list')
        const found = new Map(outcomes.map(outcome => [outcome.id, outcome]))
        for (const id of kept) {
          const { verdict = 'untested', message = 'there is no such test' } = found.get(id) ?? {}
          t.equal(verdict, 'pass', `${id}${message === '' ? '' : `: ${message}`}`)
        }
      })
    }
  },
)
