import fc from 'fast-check'
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { LocalLedger } from '../../src/limits/ledger.js'
import type { LimitName } from '../../src/limits/refusals.js'
import { type ShareLimits, Shares, type Reservation } from '../../src/limits/shares.js'
import { LaterLedger } from '../kit/fakes/later-ledger.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { runs } from '../kit/runs.js'

const LIMITS: ShareLimits = { connections: 3, connectionsPerClient: 2, tunnels: 3, tunnelsPerClient: 2 }

function shares(limits: Partial<ShareLimits> = {}) {
  const clock = new ManualClock()
  const ledger = new LocalLedger(clock.now)
  const rejected: LimitName[] = []
  const made = new Shares({ ...LIMITS, ...limits }, ledger, limit => rejected.push(limit))
  return { clock, ledger, rejected, shares: made }
}

/** What passes through an exchange, by the test's word. */
class Flow {
  bytesPassed = 0
  stopped: string[] = []

  stopTunnel(reason: string): void {
    this.stopped.push(reason)
  }
}

const entrant = (account: string, tunnel: boolean, metered = new Flow()) => ({
  account,
  tunnel,
  metered,
})

/** The reason of a refusal; undefined of a reservation. */
function reasonOf(found: unknown): string | undefined {
  if (found instanceof Promise) throw new Error('a promise of what is known')
  return found instanceof ProxyError ? found.reason : undefined
}

function reservationOf(found: unknown): Reservation {
  if (reasonOf(found) !== undefined) throw new Error(`refused: ${reasonOf(found)}`)
  return found as Reservation
}

t.test('a request costs nothing where no limit asks for it', async t => {
  const { shares: all } = shares()
  t.equal(all.countsRequests, false)
  for (const limits of [{ requestsPerSecond: 1 }, { bytesPerHour: 1024 }]) {
    t.equal(shares(limits).shares.countsRequests, true)
    all.configure({ ...LIMITS, ...limits })
    t.equal(all.countsRequests, true)
  }
})

t.test('tunnels are counted for each client and in all, and given back once', async t => {
  const { shares: all, ledger, rejected } = shares()
  const first = reservationOf(all.enter(entrant('a', true)))
  reservationOf(all.enter(entrant('a', true)))
  t.equal(reasonOf(all.enter(entrant('a', true))), 'limit_tunnels_per_client')
  reservationOf(all.enter(entrant('b', true)))
  t.equal(reasonOf(all.enter(entrant('b', true))), 'limit_tunnels')
  t.same(rejected, ['tunnels_per_client', 'tunnels'])
  t.equal(ledger.held('tunnels b'), 1, 'what was refused holds nothing')
  first.release()
  first.release()
  t.equal(ledger.held('tunnels'), 2)
  reservationOf(all.enter(entrant('b', true)))
})

t.test('connections are counted from each source and in all', async t => {
  const { shares: all, ledger, rejected } = shares()
  const shed = () => t.fail('there is room to say so')
  const slots = [all.connect('a', shed), all.connect('a', shed), all.connect('b', shed)]
  t.ok(slots.every(({ refusal }) => refusal === undefined))
  const [one, other] = [all.connect('a', shed), all.connect('b', shed)]
  t.match(one.refusal, { status: 429, reason: 'limit_connections_per_client' })
  t.match(other.refusal, { status: 503, reason: 'limit_connections' })
  t.same(rejected, ['connections_per_client', 'connections'])
  for (const slot of [...slots, one, other]) slot.release()
  for (const key of ['connections', 'connections a', 'connections b']) t.equal(ledger.held(key), 0)
})

t.test('when too many wait to be refused, further ones are closed', async t => {
  const { shares: all, rejected } = shares({ connections: 1, connectionsPerClient: 1 })
  let shed = 0
  const slots = Array.from({ length: 101 }, () => all.connect('a', () => shed++))
  t.equal(shed, 0)
  all.connect('a', () => shed++).release()
  t.equal(shed, 1)
  t.equal(rejected.length, 101)
  slots[1]?.release()
  t.ok(all.connect('a', () => shed++).refusal)
  t.equal(shed, 1)
})

t.test('requests a second and bytes an hour are asked of every exchange', async t => {
  const { shares: all, clock } = shares({ requestsPerSecond: 2, bytesPerHour: 1024 })
  reservationOf(all.enter(entrant('a', false))).release()
  const flow = new Flow()
  const reservation = reservationOf(all.enter(entrant('a', false, flow)))
  const third = all.enter(entrant('a', false))
  t.match(third, { reason: 'limit_requests_per_second', fields: ['Retry-After', '1'] })
  flow.bytesPassed = 1024
  reservation.release()
  clock.advance(1000)
  t.match(all.enter(entrant('a', false)), { reason: 'limit_bytes_per_hour', fields: ['Retry-After', '3599'] })
  reservationOf(all.enter(entrant('b', false)))
  clock.advance(3_599_000)
  reservationOf(all.enter(entrant('a', false)))
})

t.test('who has used up its bytes loses its tunnels, nobody else does', async t => {
  const { shares: all, clock } = shares({ bytesPerHour: 1024 })
  const [busy, idle, other] = [new Flow(), new Flow(), new Flow()]
  reservationOf(all.enter(entrant('a', true, busy)))
  reservationOf(all.enter(entrant('a', true, idle)))
  reservationOf(all.enter(entrant('b', true, other)))
  all.meter(clock.now())
  busy.bytesPassed = 1023
  other.bytesPassed = 1023
  all.meter(clock.now())
  clock.advance(1000)
  all.meter(clock.now())
  t.same([busy.stopped, idle.stopped, other.stopped], [[], [], []])
  idle.bytesPassed = 1
  clock.advance(999)
  all.meter(clock.now())
  t.same(busy.stopped, [], 'it is looked at once a second')
  clock.advance(1)
  all.meter(clock.now())
  t.same([busy.stopped, idle.stopped, other.stopped], [['bytes'], ['bytes'], []])
})

t.test('tunnels of who has used up its bytes elsewhere are closed, quiet as they may be', async t => {
  const ledger = new LaterLedger()
  const questions: string[] = []
  const spend = ledger.spend.bind(ledger)
  ledger.spend = (key, bytes, limit) => {
    questions.push(`${key} ${bytes}`)
    return spend(key, bytes, limit)
  }
  const limits = { ...LIMITS, bytesPerHour: 1024 }
  const [here, there] = [new Shares(limits, ledger, () => {}), new Shares(limits, ledger, () => {})]
  const [busy, quiet, alsoQuiet, other] = [new Flow(), new Flow(), new Flow(), new Flow()]
  await here.enter(entrant('a', false, busy))
  await there.enter(entrant('a', true, quiet))
  await there.enter(entrant('a', true, alsoQuiet))
  await there.enter(entrant('b', true, other))
  await there.enter(entrant('c', false))
  busy.bytesPassed = 1024
  here.meter(1e6)
  questions.length = 0
  there.meter(1e6)
  t.same(questions, ['bytes a 0', 'bytes b 0'], 'one question for each client that has tunnels')
  await new Promise(resolve => setImmediate(resolve))
  t.same([quiet.stopped, alsoQuiet.stopped, other.stopped], [['bytes'], ['bytes'], []])
})

t.test('other limits hold for what is asked from then on; bytes count from when somebody counts', async t => {
  const { shares: all, clock } = shares()
  const flow = new Flow()
  reservationOf(all.enter(entrant('a', true, flow)))
  reservationOf(all.enter(entrant('a', true)))
  flow.bytesPassed = 5000
  all.configure({ ...LIMITS, tunnelsPerClient: 1, bytesPerHour: 1024 })
  t.equal(reasonOf(all.enter(entrant('a', true))), 'limit_tunnels_per_client')
  all.meter(clock.now())
  t.same(flow.stopped, [])
  flow.bytesPassed += 1024
  clock.advance(1000)
  all.meter(clock.now())
  t.same(flow.stopped, ['bytes'])
})

t.test('a reload between two looks at the bytes forgets none of them', async t => {
  const limits = { ...LIMITS, bytesPerHour: 1024 }
  const { shares: all, ledger } = shares(limits)
  const flow = new Flow()
  reservationOf(all.enter(entrant('a', true, flow)))
  all.meter(0)
  flow.bytesPassed = 600
  all.configure({ ...limits, tunnels: 2 })
  flow.bytesPassed = 1024
  all.meter(1000)
  t.ok(ledger.spend('bytes a', 0, 1024) > 0, 'all of them are used up')
  t.same(flow.stopped, ['bytes'])
})

t.test('a ledger that is elsewhere has the same answers, later', async t => {
  const ledger = new LaterLedger()
  const limits = { ...LIMITS, requestsPerSecond: 4, bytesPerHour: 1024 }
  const all = new Shares(limits, ledger, () => {})
  const answers = await Promise.all(Array.from({ length: 3 }, () => all.enter(entrant('a', true))))
  t.match(answers[2], { reason: 'limit_tunnels_per_client' })
  for (const reservation of answers.slice(0, 2)) (reservation as Reservation).release()
  t.equal(ledger.local.held('tunnels'), 0)
  let shed = 0
  const gone = all.connect('a', () => shed++)
  gone.release()
  await gone.pending
  const slots = [
    all.connect('a', () => shed++),
    all.connect('a', () => shed++),
    all.connect('a', () => shed++),
  ]
  t.ok(slots.every(({ refusal }) => refusal === undefined))
  for (const { pending } of slots) await pending
  t.ok(slots.every(({ pending }) => pending === undefined))
  t.equal(slots.filter(({ refusal }) => refusal !== undefined).length, 1)
  for (const slot of slots) slot.release()
  t.equal(ledger.local.held('connections'), 0, 'also of what was gone before the answer')
  t.equal(ledger.local.held('connections a'), 0)
  const flow = new Flow()
  const reservation = await all.enter(entrant('b', true, flow))
  flow.bytesPassed = 1024
  all.meter(1e6)
  await undefined
  t.same(flow.stopped, ['bytes'])
  t.notOk(reservation instanceof ProxyError)
})

t.test('however exchanges come and go, no limit is passed and nothing is held in the end', async t => {
  const step = fc.record({ client: fc.constantFrom('a', 'b', 'c'), leave: fc.boolean(), pick: fc.nat() })
  const property = fc.property(fc.array(step), steps => {
    const { shares: all, ledger } = shares()
    const open: Reservation[] = []
    for (const { client, leave, pick } of steps) {
      if (leave) open[pick % Math.max(1, open.length)]?.release()
      else {
        const found = all.enter(entrant(client, true))
        if (!(found instanceof ProxyError)) open.push(reservationOf(found))
      }
      const each = ['a', 'b', 'c'].map(name => ledger.held(`tunnels ${name}`))
      if (each.some(count => count > 2) || ledger.held('tunnels') > 3) return false
      if (each.reduce((sum, count) => sum + count, 0) !== ledger.held('tunnels')) return false
    }
    for (const reservation of open) reservation.release()
    return ledger.held('tunnels') === 0
  })
  t.equal(fc.check(property, { numRuns: runs(500) }).failed, false)
})
