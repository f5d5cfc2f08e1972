import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { createLogger } from '../../src/observe/log.js'
import { Availability, DOWN_MS, logUpstream } from '../../src/upstream/availability.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'

const ERROR = new ProxyError('connection_refused', 'm')

t.test(
  'an upstream that could not be connected to is not preferred for a while, and each change is reported once',
  async t => {
    const clock = new ManualClock()
    const changes: [string, ProxyError | undefined][] = []
    const availability = new Availability<string>({
      now: clock.now,
      onChange: (name, error) => changes.push([name, error]),
    })
    t.same(availability.preferred(['a', 'b']), ['a', 'b'])
    availability.markUp('a')
    t.same(changes, [])
    availability.markDown('a', ERROR)
    availability.markDown('a', ERROR)
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
    availability.markUp('a')
    t.same(availability.preferred(['a', 'b']), ['a', 'b'])
    t.same(changes, [
      ['a', ERROR],
      ['a', undefined],
    ])
    availability.chosen('b')
    t.same(availability.preferred(['a', 'b']), ['a', 'b'], 'what is up stays up')
  },
)

t.test('an outage begins with the first failure, and has the error of the last', async t => {
  const clock = new ManualClock()
  const availability = new Availability<string>({ now: clock.now, onChange: () => {} })
  t.same(availability.healthOf('a'), { upstream: 'a', outage: undefined, failures: new Map() })
  const since = clock.now()
  availability.markDown('a', ERROR)
  clock.advance(DOWN_MS)
  availability.chosen('a')
  const last = new ProxyError('dns_error', 'no address')
  availability.markDown('a', last)
  const { outage, failures } = availability.healthOf('a')
  t.match(outage, { since, lastTried: since + DOWN_MS, error: last })
  t.same([...failures.values()], [1, 1])
  availability.markUp('a')
  t.equal(availability.healthOf('a').outage, undefined)
})

t.test('logs a warning when an upstream goes down, and none when it is up again', async t => {
  const lines: unknown[] = []
  const logger = createLogger('info', { write: line => void lines.push(JSON.parse(line)) })
  const upstream = { source: 'origins[0].forward', url: 'http://up.test:80' }
  logUpstream(logger, upstream, new ProxyError('connection_refused', 'refused'))
  logUpstream(logger, upstream, undefined)
  t.match(lines, [
    {
      level: 'warn',
      event: 'upstream_down',
      source: 'origins[0].forward',
      upstream: 'http://up.test:80',
      error: 'connection_refused',
    },
    { level: 'info', event: 'upstream_up', upstream: 'http://up.test:80' },
  ])
})
