import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { Availability, DOWN_MS } from '../../src/upstream/availability.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'

const ERROR = new ProxyError('connection_refused', 'm')

t.test('what could not be reached is not preferred for a while, and every change is told once', async t => {
  const clock = new ManualClock()
  const changes: [string, ProxyError | undefined][] = []
  const availability = new Availability<string>({
    now: clock.now,
    onChange: (name, error) => changes.push([name, error]),
  })
  t.same(availability.preferred(['a', 'b']), ['a', 'b'])
  availability.reached('a')
  t.same(changes, [])
  availability.unreached('a', ERROR)
  availability.unreached('a', ERROR)
  t.same(changes, [['a', ERROR]])
  t.same(availability.preferred(['a', 'b']), ['b'])
  t.same(availability.preferred(['a']), ['a'], 'where there is no other')
  t.same(availability.preferred([]), [])
  clock.advance(DOWN_MS - 1)
  t.same(availability.preferred(['a', 'b']), ['b'])
  clock.advance(1)
  t.same(availability.preferred(['a', 'b']), ['a', 'b'])
  availability.chosen('a')
  t.same(availability.preferred(['a', 'b']), ['b'], 'one request finds out whether it is back')
  availability.reached('a')
  t.same(availability.preferred(['a', 'b']), ['a', 'b'])
  t.same(changes, [
    ['a', ERROR],
    ['a', undefined],
  ])
  availability.chosen('b')
  t.same(availability.preferred(['a', 'b']), ['a', 'b'], 'what is up stays up')
})
