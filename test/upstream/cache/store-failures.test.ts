import t from 'tap'
import { type StoreEvent, StoreFailures } from '../../../src/upstream/cache/store-failures.js'

function failuresAt(clock: { now: number }) {
  const events: StoreEvent[] = []
  const failures = new StoreFailures({ log: event => events.push(event), now: () => clock.now })
  return { events, failures }
}

t.test(
  'a failure that goes on is logged at once, and then once a minute with how many there were',
  async t => {
    const clock = { now: 0 }
    const { events, failures } = failuresAt(clock)
    for (clock.now = 0; clock.now < 120_000; clock.now += 1_000) failures.report(new Error('gone'))
    t.same(events, [
      { event: 'cache_store_down', error: 'gone', failures: 1 },
      { event: 'cache_store_down', error: 'gone', failures: 60 },
    ])
  },
)

t.test('its end is logged once, and only where it was logged before', async t => {
  const clock = { now: 0 }
  const { events, failures } = failuresAt(clock)
  failures.recovered()
  t.same(events, [])
  failures.report(new Error('gone'))
  failures.recovered()
  failures.recovered()
  for (let i = 0; i < 10; i++) {
    clock.now += 1_000
    failures.report(new Error('gone again'))
    failures.recovered()
  }
  t.same(events, [{ event: 'cache_store_down', error: 'gone', failures: 1 }, { event: 'cache_store_up' }])
  clock.now = 60_000
  failures.report('text')
  t.match(events[2], { event: 'cache_store_down', error: 'text' })
})

t.test('an error without a message is logged by its name', async t => {
  const { events, failures } = failuresAt({ now: 0 })
  failures.report(new RangeError())
  t.match(events, [{ error: 'RangeError' }])
})
