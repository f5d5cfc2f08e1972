import t from 'tap'
import { attemptSource, FailedAttempts } from '../../src/clients/failed-attempts.js'
import { parseIpAddress } from '../../src/net/ip-address.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'

/** `count` wrong attempts of different credentials, one after another. */
function fail(attempts: FailedAttempts, source: string, count: number): void {
  for (let i = 0; i < count; i++) attempts.begin(source, `wrong ${i}`)(true)
}

t.test('twenty wrong ones within a minute are looked at, and no more', async t => {
  const clock = new ManualClock()
  const attempts = new FailedAttempts(clock.now)
  for (let i = 0; i < 20; i++) {
    t.equal(attempts.waitSeconds('a'), 0, `${i} before it`)
    attempts.begin('a', 'x')(true)
    clock.advance(100)
  }
  t.equal(attempts.waitSeconds('a'), 58, 'until the oldest is a minute old, in whole seconds')
  t.equal(attempts.waitSeconds('b'), 0, 'others are not concerned')
  clock.advance(57_999)
  t.equal(attempts.waitSeconds('a'), 1)
  clock.advance(1)
  t.equal(attempts.waitSeconds('a'), 0, 'one has left the window')
  attempts.begin('a', 'x')(true)
  t.equal(attempts.waitSeconds('a'), 1, 'until the next one leaves it')
  clock.advance(100)
  t.equal(attempts.waitSeconds('a'), 0)
})

t.test('what is being checked counts until it is known, and right ones leave nothing', async t => {
  const attempts = new FailedAttempts(new ManualClock().now)
  fail(attempts, 'a', 5)
  const ends = Array.from({ length: 15 }, (_, i) => attempts.begin('a', `${i}`))
  t.equal(attempts.waitSeconds('a'), 1)
  ends[0]?.(false)
  t.equal(attempts.waitSeconds('a'), 0)
  ends[1]?.(true)
  t.equal(attempts.waitSeconds('a'), 0)
  attempts.begin('a', 'again')
  t.equal(attempts.waitSeconds('a'), 1)
  for (const end of ends.slice(2)) end(false)
  fail(attempts, 'a', 12)
  t.equal(attempts.waitSeconds('a'), 0)
  fail(attempts, 'a', 1)
  t.ok(attempts.waitSeconds('a') > 0)
})

t.test('the same credentials at the same time are one attempt, one after another several', async t => {
  const attempts = new FailedAttempts(new ManualClock().now)
  const ends = Array.from({ length: 100 }, () => attempts.begin('a', 'same'))
  t.equal(attempts.waitSeconds('a'), 0)
  for (const end of ends) end(true)
  fail(attempts, 'a', 18)
  t.equal(attempts.waitSeconds('a'), 0, 'nineteen by now')
  attempts.begin('a', 'same')(true)
  t.equal(attempts.waitSeconds('a'), 60)
})

t.test(
  'credentials that are checked twice at a time count as wrong if one check has found them wrong',
  async t => {
    const attempts = new FailedAttempts(new ManualClock().now)
    fail(attempts, 'a', 19)
    const ends = [attempts.begin('a', 'same'), attempts.begin('a', 'same')]
    ends[0]?.(true)
    ends[1]?.(false)
    t.equal(attempts.waitSeconds('a'), 60)
  },
)

t.test('remembers a bounded number of sources; the one quiet for longest goes', async t => {
  const clock = new ManualClock()
  const attempts = new FailedAttempts(clock.now)
  fail(attempts, 'first', 20)
  fail(attempts, 'second', 19)
  for (let i = 0; i < 9997; i++) attempts.begin(`${i}`, 'x')(true)
  fail(attempts, 'second', 1)
  const begun = attempts.begin('last', 'x')
  t.ok(attempts.waitSeconds('first') > 0)
  attempts.begin('one more', 'x')(true)
  t.equal(attempts.waitSeconds('first'), 0, 'forgotten')
  t.ok(attempts.waitSeconds('second') > 0)

  for (let i = 0; i < 10_000; i++) attempts.begin(`other ${i}`, 'x')(true)
  t.equal(attempts.waitSeconds('second'), 0)
  begun(true)
  fail(attempts, 'last', 19)
  t.equal(attempts.waitSeconds('last'), 60, 'an attempt counts although its source was forgotten meanwhile')
})

t.test('a source that only ever was right takes no room', async t => {
  const attempts = new FailedAttempts(new ManualClock().now)
  fail(attempts, 'first', 20)
  for (let i = 0; i < 20_000; i++) attempts.begin(`${i}`, 'x')(false)
  t.ok(attempts.waitSeconds('first') > 0)
})

t.test('IPv4 is counted by address, mapped or not, and IPv6 by /64', async t => {
  const sourceOf = (text: string) => {
    const ip = parseIpAddress(text)
    return ip === undefined ? undefined : attemptSource(ip)
  }
  t.equal(sourceOf('192.0.2.1'), sourceOf('::ffff:192.0.2.1'))
  t.not(sourceOf('192.0.2.1'), sourceOf('192.0.2.2'))
  t.equal(sourceOf('2001:db8:1:2::'), sourceOf('2001:db8:1:2:ffff:ffff:ffff:ffff'))
  t.not(sourceOf('2001:db8:1:2::'), sourceOf('2001:db8:1:3::'))
  t.not(sourceOf('::ffff:192.0.2.1'), sourceOf('::ffff:0:1'))
})

t.test('what counts still can be handed to somebody whose clock is another one', async t => {
  const clock = new ManualClock()
  const attempts = new FailedAttempts(clock.now)
  fail(attempts, 'old', 1)
  fail(attempts, 'a', 10)
  attempts.begin('pending', 'x')
  clock.advance(30_000)
  fail(attempts, 'a', 9)
  fail(attempts, 'b', 20)
  clock.advance(20_000)
  fail(attempts, 'old', 1)
  clock.advance(10_001)
  const recent = attempts.recent()
  t.same(recent, [
    ['a', Array(9).fill(30_001)],
    ['b', Array(20).fill(30_001)],
    ['old', [10_001]],
  ])

  const later = new ManualClock()
  later.advance(1e6)
  const told: string[] = []
  const heir = new FailedAttempts(later.now, source => told.push(source))
  heir.adopt(recent)
  t.same(heir.recent(), recent)
  t.equal(heir.waitSeconds('b'), 30)
  t.equal(heir.waitSeconds('a'), 0)
  fail(heir, 'a', 11)
  t.equal(heir.waitSeconds('a'), 30)
  later.advance(29_999)
  t.equal(heir.waitSeconds('b'), 0)
  t.same(told, Array(11).fill('a'), 'nobody is told of what they know')
})

t.test('failures of other processes count too, and own failures are reported once each', async t => {
  const clock = new ManualClock()
  const told: string[] = []
  const attempts = new FailedAttempts(clock.now, source => told.push(source))
  for (let i = 0; i < 10; i++) attempts.count('a')
  t.same(told, [], 'nobody is told of what others have found')
  fail(attempts, 'a', 9)
  t.equal(attempts.waitSeconds('a'), 0)
  const [one, other] = [attempts.begin('a', 'x'), attempts.begin('a', 'x')]
  one(true)
  other(true)
  t.equal(attempts.waitSeconds('a'), 60)
  attempts.begin('b', 'x')(false)
  t.same(told, Array(10).fill('a'))
  clock.advance(60_000)
  t.equal(attempts.waitSeconds('a'), 0)
})
