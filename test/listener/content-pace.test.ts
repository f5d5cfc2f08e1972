import t from 'tap'
import { ContentPace } from '../../src/listener/content-pace.js'

t.test('each window has to bring its bytes, and the first is a grace', async t => {
  const pace = new ContentPace(0, 0)
  const look = (now: number, bytes: number) => pace.isBelow(100, 1000, now, bytes, true)
  t.equal(look(999, 0), false)
  t.equal(look(1000, 100), false)
  t.equal(look(1999, 100), false)
  t.equal(look(2000, 199), true)
})

t.test('the time in which nobody wanted content does not count', async t => {
  const pace = new ContentPace(0, 0)
  t.equal(pace.isBelow(100, 1000, 500, 0, true), false)
  t.equal(pace.isBelow(100, 1000, 60_000, 0, false), false)
  t.equal(pace.isBelow(100, 1000, 60_499, 0, true), false)
  t.equal(pace.isBelow(100, 1000, 60_500, 99, true), true)
})
