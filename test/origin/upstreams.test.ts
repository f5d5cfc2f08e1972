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

t.test('upstreams with the same load are chosen in turn', async t => {
  const { upstreams } = group('a', 'b', 'c')
  const taken = []
  for (let i = 0; i < 6; i++) {
    const name = upstreams.take(NONE) ?? ''
    taken.push(name)
    upstreams.done(name)
  }
  t.same(taken, ['a', 'b', 'c', 'a', 'b', 'c'])
})

t.test('the upstream with the fewest requests in progress is chosen first', async t => {
  const { upstreams } = group('a', 'b')
  t.same([upstreams.take(NONE), upstreams.take(NONE), upstreams.take(NONE)], ['a', 'b', 'a'])
  upstreams.done('a')
  upstreams.done('a')
  t.equal(upstreams.take(NONE), 'a')
})

t.test('no upstream is chosen twice for one request', async t => {
  const { upstreams } = group('a', 'b')
  t.equal(upstreams.take(new Set(['a'])), 'b')
  t.equal(upstreams.take(new Set(['a', 'b'])), undefined)
})

t.test('an upstream that is down is skipped for a while, then a single request tries it', async t => {
  const { upstreams, clock, changes } = group('a', 'b')
  const take = (): string => {
    const name = upstreams.take(NONE) ?? ''
    upstreams.done(name)
    return name
  }
  upstreams.markDown('a', REFUSED)
  upstreams.markDown('a', REFUSED)
  t.same(changes, ['a connection_refused'], 'a change is told once')
  clock.advance(DOWN_MS - 1)
  t.same([take(), take(), take()], ['b', 'b', 'b'])
  clock.advance(1)
  const next = [take(), take(), take(), take()]
  t.equal(next.filter(name => name === 'a').length, 1, 'the others do not wait with it')
  upstreams.markUp('a')
  upstreams.markUp('a')
  t.same(changes, ['a connection_refused', 'a up'])
  t.same([take(), take()].sort(), ['a', 'b'])
})

t.test('upstreams that are down are chosen last', async t => {
  const { upstreams } = group('a', 'b')
  upstreams.markDown('a', REFUSED)
  t.equal(upstreams.take(NONE), 'b')
  t.equal(upstreams.take(new Set(['b'])), 'a')
  upstreams.markDown('b', REFUSED)
  t.ok(upstreams.take(NONE))
  t.equal(group('x').upstreams.take(NONE), 'x')
})

t.test('health reports which upstreams are up, and how many times each has failed', async t => {
  const { upstreams, clock } = group('a', 'b')
  const health = () =>
    upstreams.health.map(({ upstream, outage, failures }) => [upstream, outage === undefined, ...failures])
  t.same(health(), [
    ['a', true],
    ['b', true],
  ])
  upstreams.markDown('b', REFUSED)
  upstreams.markDown('b', REFUSED)
  upstreams.markDown('b', new ProxyError('dns_error', 'no name'))
  t.same(health(), [
    ['a', true],
    ['b', false, ['connection_refused', 2], ['dns_error', 1]],
  ])
  clock.advance(DOWN_MS)
  t.same(health()[1]?.[1], false, 'it is down until a connection is established')
  upstreams.markUp('b')
  t.same(health()[1], ['b', true, ['connection_refused', 2], ['dns_error', 1]])
})
