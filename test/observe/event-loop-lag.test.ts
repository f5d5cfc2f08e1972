import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { EventLoopLag } from '../../src/observe/event-loop-lag.js'
import { until } from '../kit/until.js'

/** A monitor that says what the test has it say, in nanoseconds. */
function monitored(t: Test) {
  const monitor = { max: 0, enable: () => true, disable: () => true, reset: () => {} }
  monitor.reset = () => {
    monitor.max = 0
  }
  const measured = new EventLoopLag(monitor)
  t.teardown(() => measured.close())
  return { monitor, measured, lag: () => measured.report().values[0]?.value }
}

const MS = 1e6

t.test('two scrapers read the same, however often each of them asks', async t => {
  const { monitor, measured, lag } = monitored(t)
  t.equal(lag(), 0)
  monitor.max = 310 * MS
  for (let scrape = 0; scrape < 4; scrape++) t.equal(lag(), 0.3)
  measured.endSlot()
  t.equal(monitor.max, 0, 'measured anew')
  for (let scrape = 0; scrape < 4; scrape++) t.equal(lag(), 0.3)
})

t.test('the longest delay counts for a minute, in steps of five seconds', async t => {
  const { monitor, measured, lag } = monitored(t)
  monitor.max = 510 * MS
  measured.endSlot()
  monitor.max = 110 * MS
  for (let slot = 0; slot < 11; slot++) {
    t.equal(lag(), 0.5, `slot ${slot}`)
    measured.endSlot()
  }
  t.equal(lag(), 0.5)
  measured.endSlot()
  t.equal(lag(), 0.1, 'what came behind it is left')
})

t.test('a loop that was blocked was late by as much', async t => {
  const measured = new EventLoopLag()
  t.teardown(() => measured.close())
  const lag = () => measured.report().values[0]?.value ?? Number.NaN
  t.ok(lag() >= 0, 'before anything was looked at it is 0 or more')
  // The monitor's own timer has to have run before the loop is held up, and after: there is no event that says so.
  await delay(50)
  const end = performance.now() + 300
  while (performance.now() < end) {}
  const late = await until('the delay to be seen', async () => {
    await delay(10)
    return lag() >= 0.25 && lag()
  })
  t.ok(late < 5, `${late}`)
  t.ok(lag() >= late, 'it is told again')
})
