import t from 'tap'
import { systemSchedule } from '../../src/run/schedule.js'

t.test('calls once, unless that is taken back', async t => {
  const called: string[] = []
  const alive = setTimeout(() => {}, 60_000)
  t.teardown(() => clearTimeout(alive))
  const takeBack = systemSchedule(0, () => called.push('taken back'))
  takeBack()
  await new Promise<void>(resolve => systemSchedule(1, resolve))
  t.same(called, [])
})
