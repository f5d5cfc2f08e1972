import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { Upstreams } from '../../src/origin/upstreams.js'
import { DOWN_MS } from '../../src/upstream/availability.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'

const NONE: ReadonlySet<string> = new Set()
const REFUSED = new ProxyError('connection_refused', 'refused')

function group(...names: string[]) {
  const clock = new ManualClock()
  const changes: string[] = []
  const upstreams = new Upstreams(names, {
    now: clock.now,
    onChange: (name, error) => changes.push(`${name} ${error?.type ?? 'up'}`),
  })
  return { upstreams, clock, changes }
}

t.test('level ones take turns', async t => {
  const { upstreams } = group('a', 'b', 'c')
  const taken = []
  for (let i = 0; i < 6; i++) {
    const name = upstreams.take(NONE) ?? ''
    taken.push(name)
    upstreams.done(name)
  }
  t.same(taken, ['a', 'b', 'c', 'a', 'b', 'c'])
})

t.test('the one with the fewest requests under way comes first', async t => {
  const { upstreams } = group('a', 'b')
  t.same([upstreams.take(NONE), upstreams.take(NONE), upstreams.take(NONE)], ['a', 'b', 'a'])
  upstreams.done('a')
  upstreams.done('a')
  t.equal(upstreams.take(NONE), 'a')
})

t.test('none is taken twice for one request', async t => {
  const { upstreams } = group('a', 'b')
  t.equal(upstreams.take(new Set(['a'])), 'b')
  t.equal(upstreams.take(new Set(['a', 'b'])), undefined)
})

t.test('one that is down is passed over until its time is over, and one request tries it then', async t => {
  const { upstreams, clock, changes } = group('a', 'b')
  const take = (): string => {
    const name = upstreams.take(NONE) ?? ''
    upstreams.done(name)
    return name
  }
  upstreams.unreached('a', REFUSED)
  upstreams.unreached('a', REFUSED)
  t.same(changes, ['a connection_refused'], 'a change is told once')
  clock.advance(DOWN_MS - 1)
  t.same([take(), take(), take()], ['b', 'b', 'b'])
  clock.advance(1)
  const next = [take(), take(), take(), take()]
  t.equal(next.filter(name => name === 'a').length, 1, 'the others do not wait with it')
  upstreams.reached('a')
  upstreams.reached('a')
  t.same(changes, ['a connection_refused', 'a up'])
  t.same([take(), take()].sort(), ['a', 'b'])
})

t.test('when all are down they are taken all the same, after those that are not', async t => {
  const { upstreams } = group('a', 'b')
  upstreams.unreached('a', REFUSED)
  t.equal(upstreams.take(NONE), 'b')
  t.equal(upstreams.take(new Set(['b'])), 'a')
  upstreams.unreached('b', REFUSED)
  t.ok(upstreams.take(NONE))
  t.equal(group('x').upstreams.take(NONE), 'x')
})

t.test('health says which are up, and how often each failed', async t => {
  const { upstreams, clock } = group('a', 'b')
  const health = () =>
    upstreams.health.map(({ upstream, outage, failures }) => [upstream, outage === undefined, ...failures])
  t.same(health(), [
    ['a', true],
    ['b', true],
  ])
  upstreams.unreached('b', REFUSED)
  upstreams.unreached('b', REFUSED)
  upstreams.unreached('b', new ProxyError('dns_error', 'no name'))
  t.same(health(), [
    ['a', true],
    ['b', false, ['connection_refused', 2], ['dns_error', 1]],
  ])
  clock.advance(DOWN_MS)
  t.same(health()[1]?.[1], false, 'it is down until a connection is established')
  upstreams.reached('b')
  t.same(health()[1], ['b', true, ['connection_refused', 2], ['dns_error', 1]])
})
