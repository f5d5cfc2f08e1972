import { setTimeout as delay } from 'node:timers/promises'
import { Registry } from 'prom-client'
import t from 'tap'
import { registerEventLoopLag } from '../../src/observe/event-loop-lag.js'
import { parseExposition } from '../kit/peers/exposition.js'

t.test('a loop that stood still for a while was late by as much, once', async t => {
  const registry = new Registry()
  const stop = registerEventLoopLag(registry)
  t.teardown(stop)
  const lag = async () =>
    parseExposition(await registry.metrics(), 'text').value('sluice_event_loop_lag_seconds') ?? Number.NaN
  t.ok((await lag()) >= 0, 'before anything was looked at it is 0 or more')
  // The monitor's own timer has to have run before the loop is held up, and after: there is no event that says so.
  await delay(50)
  const until = performance.now() + 300
  while (performance.now() < until) {}
  await delay(50)
  const late = await lag()
  t.ok(late >= 0.25 && late < 5, `${late}`)
  // The loop may have stood still by itself meanwhile, which is told then, once as well.
  do await delay(50)
  while ((await lag()) >= late)
  t.pass('it is told once')
})
