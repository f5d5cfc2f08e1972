import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { EventLoopLag } from '../../src/observe/event-loop-lag.js'
import { until } from '../kit/until.js'

t.test('a loop that stood still for a while was late by as much, once', async t => {
  const measured = new EventLoopLag()
  t.teardown(() => measured.close())
  const lag = () => measured.report().values[0]?.value ?? Number.NaN
  t.ok(lag() >= 0, 'before anything was looked at it is 0 or more')
  // The monitor's own timer has to have run before the loop is held up, and after: there is no event that says so.
  await delay(50)
  const end = performance.now() + 300
  while (performance.now() < end) {}
  await delay(50)
  const late = lag()
  t.ok(late >= 0.25 && late < 5, `${late}`)
  // The loop may have stood still by itself meanwhile, which is told then, once as well.
  const next = await until('it to be told no more', async () => {
    await delay(50)
    const told = lag()
    return told < late && told
  })
  t.ok(next < late, `it is told once, and then ${next}`)
})
