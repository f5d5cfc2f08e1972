import fc from 'fast-check'
import t from 'tap'
import { LocalLedger } from '../../src/limits/ledger.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { runs } from '../kit/runs.js'

t.test(
  'as many units are reserved as the limit allows, and a released one can be reserved again',
  async t => {
    const ledger = new LocalLedger(() => 0)
    t.same([ledger.acquire('a', 2), ledger.acquire('a', 2), ledger.acquire('a', 2)], [true, true, false])
    t.equal(ledger.acquire('b', 1), true, 'keys have nothing to do with each other')
    ledger.release('a')
    t.same([ledger.acquire('a', 2), ledger.acquire('a', 2)], [true, false])
    t.equal(ledger.acquire('a', 3), true, 'another limit holds for what is asked for from then on')
    t.equal(ledger.acquire('a', 1), false)
    t.equal(ledger.held('a'), 3)
  },
)

t.test(
  'whatever is acquired and released, the limit is never exceeded and nothing stays reserved',
  async t => {
    const step = fc.record({ key: fc.constantFrom('a', 'b'), release: fc.boolean(), pick: fc.nat() })
    const property = fc.property(fc.array(step), fc.integer({ min: 1, max: 5 }), (steps, limit) => {
      const ledger = new LocalLedger(() => 0)
      const held: string[] = []
      for (const { key, release, pick } of steps) {
        if (!release) {
          const before = held.filter(one => one === key).length
          if (ledger.acquire(key, limit) !== before < limit) return false
          if (before < limit) held.push(key)
        } else if (held.length > 0) {
          const [one = ''] = held.splice(pick % held.length, 1)
          ledger.release(one)
        }
        for (const one of ['a', 'b']) {
          const count = ledger.held(one)
          if (count !== held.filter(other => other === one).length || count < 0 || count > limit) return false
        }
      }
      for (const one of held) ledger.release(one)
      return ledger.held('a') === 0 && ledger.held('b') === 0
    })
    t.equal(fc.check(property, { numRuns: runs(500) }).failed, false)
  },
)

t.test('a rate lets through a burst, and from then on what comes in', async t => {
  const clock = new ManualClock()
  const ledger = new LocalLedger(clock.now)
  const take = () => ledger.take('a', 4, 4)
  t.same([take(), take(), take(), take()], [0, 0, 0, 0])
  t.equal(take(), 0.25)
  clock.advance(249)
  t.ok(take() > 0)
  clock.advance(1)
  t.same([take(), take()], [0, 0.25])
  clock.advance(3_600_000)
  t.same([take(), take(), take(), take(), take()], [0, 0, 0, 0, 0.25], 'no more is kept than the burst')
  t.equal(ledger.take('b', 4, 4), 0)
})

t.test('in no span of time more is let through than the burst and what comes in meanwhile', async t => {
  const property = fc.property(
    fc.array(fc.integer({ min: 0, max: 400 })),
    fc.integer({ min: 1, max: 20 }),
    (pauses, rate) => {
      const clock = new ManualClock()
      const ledger = new LocalLedger(clock.now)
      const taken: number[] = []
      for (const pause of pauses) {
        clock.advance(pause)
        if (ledger.take('a', rate, rate) === 0) taken.push(clock.now())
      }
      return taken.every((from, first) =>
        taken.every(
          (to, last) => last < first || last - first + 1 <= rate + ((to - from) / 1000) * rate + 1e-6,
        ),
      )
    },
  )
  t.equal(fc.check(property, { numRuns: runs(300) }).failed, false)
})

t.test('an hour of bytes begins with its first, and is over after an hour', async t => {
  const clock = new ManualClock()
  const ledger = new LocalLedger(clock.now)
  const spend = (bytes: number) => ledger.spend('a', bytes, 100)
  t.equal(spend(0), 0, 'asking begins nothing')
  clock.advance(1_000_000)
  t.equal(spend(99), 0)
  clock.advance(600_000)
  t.equal(spend(1), 3000)
  t.equal(spend(0), 3000)
  t.equal(ledger.spend('b', 0, 100), 0)
  clock.advance(2_999_999)
  t.equal(spend(0), 0.001)
  clock.advance(1)
  t.equal(spend(0), 0)
  t.equal(spend(100), 3600)
})

t.test('of rates the keys that were quiet for longest are forgotten', async t => {
  const ledger = new LocalLedger(() => 0)
  const ask = (key: string) => ledger.take(key, 1, 1)
  ask('first')
  ask('second')
  t.ok(ask('first') > 0)
  for (let i = 0; i < 9999; i++) ask(`k${i}`)
  t.ok(ask('first') > 0, 'it was asked for after the second')
  t.equal(ask('second'), 0)
})

t.test('bytes that are used up are not forgotten for those of any number of others', async t => {
  const ledger = new LocalLedger(() => 0)
  t.equal(ledger.spend('spent', 100, 100), 3600)
  t.equal(ledger.spend('nearly', 99, 100), 0)
  for (let i = 0; i < 30_000; i++) ledger.spend(`2001:db8:0:${i.toString(16)}`, 98, 100)
  t.equal(ledger.spend('spent', 0, 100), 3600)
  t.equal(ledger.spend('nearly', 1, 100), 3600)
})

t.test('of bytes no more than 10,000 keys are remembered, those with the most', async t => {
  const clock = new ManualClock()
  const ledger = new LocalLedger(clock.now)
  const isKnown = (key: string) => ledger.spend(key, 1, 50) > 0
  ledger.spend('least', 49, 51)
  for (let i = 1; i < 10_000; i++) ledger.spend(`k${i}`, 50, 51)
  t.ok(ledger.spend('least', 2, 51) > 0, 'as many as are remembered')
  clock.advance(1)
  ledger.spend('further', 1, 51)
  t.notOk(isKnown('k1'), 'of those with as much the first whose hour is over')
  t.ok(isKnown('k9999'))
  t.ok(ledger.spend('least', 0, 51) > 0)
  clock.advance(3_600_000 - 1)
  for (let i = 0; i < 8000; i++) ledger.spend(`n${i}`, 2, 51)
  t.equal(ledger.spend('further', 49, 51), 0)
  t.ok(ledger.spend('further', 1, 51) > 0, 'those whose hour is over went before it')
})

t.test('of bytes those of whose limit the most is left are forgotten, whatever the limits are', async t => {
  const ledger = new LocalLedger(() => 0)
  ledger.spend('used up', 1024, 1024)
  ledger.spend('half', 512 * 1024, 1024 * 1024)
  for (let i = 0; i < 10_000; i++) ledger.spend(`k${i}`, 2048, 1_000_000)
  t.ok(ledger.spend('used up', 0, 1024) > 0, 'although others have passed more bytes')
  t.ok(ledger.spend('half', 512 * 1024, 1024 * 1024) > 0)
})
