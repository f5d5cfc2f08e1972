/** The suite of cache-tests.fyi through the built program: tests that passed before still pass, one by one. */
import t from 'tap'
import { readPasses } from '../conformance/passes.js'
import {
  startSuite,
  type Store,
  STORES,
  type SuiteRun,
  throughSluice,
  type Way,
  WAYS,
} from '../conformance/ways.js'
import { needs, type Owner } from '../kit/processes/command.js'
import { needsBuild } from './program.js'

const skip = needs('npm', 'tar') || needsBuild()

/**
 * How often the suite is run with a store. One that others wait for may be 50 milliseconds late on a busy machine, which is
 * a miss: such a test counts if it passes the second time.
 */
const RUNS: Record<Store, number> = { memory: 1, disk: 2, redis: 2 }

t.test(
  'the recorded passes of http-cache-tests still pass (RFC 9111)',
  { skip, timeout: 300_000 },
  async t => {
    const suite = await startSuite(t, 0)
    for (const store of STORES) {
      const options = { skip: store === 'redis' && needs('redis-server'), timeout: 180_000 }
      await t.test(`with ${store}`, options, async t => {
        // The suite mostly waits for responses to become stale.
        const runs = WAYS.map(async way => [way, await passesOf(t, suite, way, store)] as const)
        // If one fails, the others must have started their processes, or those would outlive the test.
        await Promise.allSettled(runs)
        for (const [way, failures] of await Promise.all(runs)) {
          await t.test(`as a ${way === 'forward' ? 'forward proxy' : way}`, async t => {
            for (const [id, failure] of failures) t.equal(failure, undefined, id)
          })
        }
      })
    }
  },
)

/** What became of each test that is recorded; undefined for one that passed. */
async function passesOf(
  t: Owner,
  suite: SuiteRun,
  way: Way,
  store: Store,
): Promise<ReadonlyMap<string, string | undefined>> {
  const failures = new Map<string, string | undefined>(
    (await readPasses(way)).map(id => [id, 'there is no such test']),
  )
  if (failures.size === 0) throw new Error('there is no list of passes')
  for (
    let run = 0;
    run < RUNS[store] && [...failures.values()].some(failure => failure !== undefined);
    run++
  ) {
    for (const { id, verdict, message } of await throughSluice(t, suite, way, store)) {
      if (failures.get(id) === undefined) continue
      failures.set(id, verdict === 'pass' ? undefined : `${verdict}: ${message ?? ''}`)
    }
  }
  return failures
}
