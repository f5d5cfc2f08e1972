import fc from 'fast-check'
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { type ClientLimits, NO_CLIENT_LIMITS } from '../../src/limits/client-limits.js'
import { LocalLedger } from '../../src/limits/ledger.js'
import type { LimitName } from '../../src/limits/refusals.js'
import { type ShareLimits, Shares, type Reservation } from '../../src/limits/shares.js'
import { AsyncLedger } from '../kit/fakes/async-ledger.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { runs } from '../kit/runs.js'

const LIMITS: ShareLimits = { connections: 3, connectionsPerClient: 2, tunnels: 3 }
const OF_CI: ClientLimits = { ...NO_CLIENT_LIMITS, client: 'ci', tunnelsPerClient: 2 }

/** The limits of the entry ci after a reload. */
const ofCi = (limits: Partial<ClientLimits>) => new Map([['ci', { ...OF_CI, ...limits }]])

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

const entrant = (
  account: string,
  tunnel: boolean,
  metered = new Flow(),
  own: Partial<ClientLimits> = {},
) => ({
  account,
  limits: { ...OF_CI, ...own },
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

t.test('requests a second and bytes an hour are counted for every exchange', async t => {
  const { shares: all, clock } = shares()
  const own = { requestsPerSecond: 2, bytesPerHour: 1024 }
  const asks = (account: string, flow = new Flow()) => all.enter(entrant(account, false, flow, own))
  reservationOf(asks('a')).release()
  const flow = new Flow()
  const reservation = reservationOf(asks('a', flow))
  const third = asks('a')
  t.match(third, { reason: 'limit_requests_per_second', fields: ['Retry-After', '1'] })
  flow.bytesPassed = 1024
  reservation.release()
  clock.advance(1000)
  t.match(asks('a'), { reason: 'limit_bytes_per_hour', fields: ['Retry-After', '3599'] })
  reservationOf(asks('b'))
  clock.advance(3_599_000)
  reservationOf(asks('a'))
})

t.test('a client that has used up its bytes loses its tunnels, and other clients do not', async t => {
  const { shares: all, clock } = shares()
  const own = { bytesPerHour: 1024 }
  const [busy, idle, other] = [new Flow(), new Flow(), new Flow()]
  reservationOf(all.enter(entrant('a', true, busy, own)))
  reservationOf(all.enter(entrant('a', true, idle, own)))
  reservationOf(all.enter(entrant('b', true, other, own)))
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

t.test('idle tunnels of a client that has used up its bytes in another process are closed', async t => {
  const ledger = new AsyncLedger()
  const questions: string[] = []
  const spend = ledger.spend.bind(ledger)
  ledger.spend = (key, bytes, limit) => {
    questions.push(`${key} ${bytes}`)
    return spend(key, bytes, limit)
  }
  const own = { bytesPerHour: 1024 }
  const [here, there] = [new Shares(LIMITS, ledger, () => {}), new Shares(LIMITS, ledger, () => {})]
  const [busy, quiet, alsoQuiet, other] = [new Flow(), new Flow(), new Flow(), new Flow()]
  await here.enter(entrant('a', false, busy, own))
  await there.enter(entrant('a', true, quiet, own))
  await there.enter(entrant('a', true, alsoQuiet, own))
  await there.enter(entrant('b', true, other, own))
  await there.enter(entrant('c', false, new Flow(), own))
  busy.bytesPassed = 1024
  here.meter(1e6)
  questions.length = 0
  there.meter(1e6)
  t.same(questions, ['bytes a 0', 'bytes b 0'], 'one question for each client that has tunnels')
  await new Promise(resolve => setImmediate(resolve))
  t.same([quiet.stopped, alsoQuiet.stopped, other.stopped], [['bytes'], ['bytes'], []])
})

t.test('new limits apply to requests from then on; bytes are counted from when a limit is set', async t => {
  const { shares: all, clock } = shares()
  const flow = new Flow()
  reservationOf(all.enter(entrant('a', true, flow)))
  reservationOf(all.enter(entrant('a', true)))
  flow.bytesPassed = 5000
  all.configure(LIMITS, ofCi({ tunnelsPerClient: 1, bytesPerHour: 1024 }))
  t.equal(reasonOf(all.enter(entrant('a', true))), 'limit_tunnels_per_client')
  all.meter(clock.now())
  t.same(flow.stopped, [])
  flow.bytesPassed += 1024
  clock.advance(1000)
  all.meter(clock.now())
  t.same(flow.stopped, ['bytes'])
})

t.test('a reload between two looks at the bytes forgets none of them', async t => {
  const own = { bytesPerHour: 1024 }
  const { shares: all, ledger } = shares()
  const flow = new Flow()
  reservationOf(all.enter(entrant('a', true, flow, own)))
  all.meter(0)
  flow.bytesPassed = 600
  all.configure({ ...LIMITS, tunnels: 2 }, ofCi(own))
  flow.bytesPassed = 1024
  all.meter(1000)
  t.ok(ledger.spend('bytes a', 0, 1024) > 0, 'all of them are used up')
  t.same(flow.stopped, ['bytes'])
})

t.test('a ledger that is elsewhere has the same answers, later', async t => {
  const ledger = new AsyncLedger()
  const own = { requestsPerSecond: 4, bytesPerHour: 1024 }
  const all = new Shares(LIMITS, ledger, () => {})
  const tunnel = () => all.enter(entrant('a', true, new Flow(), own))
  const answers = await Promise.all(Array.from({ length: 3 }, tunnel))
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
  const reservation = await all.enter(entrant('b', true, flow, own))
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

t.test('the clients of one entry together have as many tunnels as its limit allows', async t => {
  const { shares: all, ledger, rejected } = shares({ tunnels: 10 })
  const own = { tunnels: 3, own: new Set(['tunnels']) }
  const open = ['a', 'a', 'b'].map(account =>
    reservationOf(all.enter(entrant(account, true, new Flow(), own))),
  )
  const refused = all.enter(entrant('c', true, new Flow(), own))
  t.match(refused, { status: 429, reason: 'limit_client_tunnels', close: false })
  t.match((refused as ProxyError).detail, /as clients\[ci\]\.limits\.tunnels allows \(3\);/)
  t.same(rejected, ['client_tunnels'])
  t.equal(ledger.held('tunnels c'), 0, 'what was refused holds nothing')
  reservationOf(all.enter(entrant('d', true, new Flow(), { client: 'other' })))
  for (const reservation of open) reservation.release()
  t.equal(ledger.held('tunnels of ci'), 0)
  reservationOf(all.enter(entrant('c', true, new Flow(), own)))
})

t.test('a refusal names the key that sets the limit: of the entry where it has one, else of all', async t => {
  const limits = { requestsPerSecond: 1, bytesPerHour: 1024 }
  for (const [own, prefix] of [
    [['tunnels_per_client', 'requests_per_second', 'bytes_per_hour'], 'clients[ci].limits'],
    [[], 'limits'],
  ] as const) {
    const { shares: all, ledger } = shares()
    const enter = (account: string, over: Partial<ClientLimits>) => {
      const set = new Set<string>(own)
      return all.enter(entrant(account, true, new Flow(), { ...over, own: set })) as ProxyError
    }
    enter('a', { tunnelsPerClient: 1 })
    t.match(enter('a', { tunnelsPerClient: 1 }).detail, `as ${prefix}.tunnels_per_client allows (1)`)
    enter('b', limits)
    t.match(enter('b', limits).detail, `than ${prefix}.requests_per_second allows (1 a second`)
    ledger.spend('bytes c', 1024, 1024)
    t.match(enter('c', limits).detail, `as ${prefix}.bytes_per_hour allows (1KiB)`)
  }
})

t.test(
  'connections from an address that alone makes a client are counted by the limit of its entry',
  async t => {
    const { shares: all } = shares()
    const own = { ...OF_CI, connectionsPerClient: 1, own: new Set(['connections_per_client']) }
    const shed = () => t.fail('there is room to say so')
    t.equal(all.connect('a', shed, own).refusal, undefined)
    const { refusal } = all.connect('a', shed, own)
    t.match(refusal, { status: 429, reason: 'limit_connections_per_client' })
    t.match(refusal?.detail, 'as clients[ci].limits.connections_per_client allows (1)')
    t.equal(all.connect('b', shed).refusal, undefined)
  },
)

t.test('bytes are counted by the limit of each entry; a reload changes that of what is open', async t => {
  const { shares: all, clock } = shares({ tunnels: 10 })
  const [ci, agents, free] = [new Flow(), new Flow(), new Flow()]
  const few = { bytesPerHour: 1024 }
  reservationOf(all.enter(entrant('ci', true, ci, few)))
  reservationOf(all.enter(entrant('agents', true, agents, { client: 'agents', bytesPerHour: 4096 })))
  reservationOf(all.enter(entrant('free', true, free, { client: 'free' })))
  const meter = () => {
    clock.advance(1000)
    all.meter(clock.now())
    return [ci, agents, free].map(({ stopped }) => stopped.length)
  }
  for (const flow of [ci, agents, free]) flow.bytesPassed = 1023
  t.same(meter(), [0, 0, 0])
  for (const flow of [ci, agents, free]) flow.bytesPassed = 1024
  t.same(meter(), [1, 0, 0])
  const after = (client: string, limits: Partial<ClientLimits>): [string, ClientLimits] => [
    client,
    { ...OF_CI, client, ...limits },
  ]
  all.configure(LIMITS, new Map([after('ci', {}), after('agents', few), after('free', few)]))
  t.same(meter(), [1, 1, 0], 'what passed while nobody counted is not counted')
  free.bytesPassed += 1024
  t.same(meter(), [1, 2, 1])
  t.match(all.enter(entrant('free', false, new Flow(), { client: 'free' })), {
    reason: 'limit_bytes_per_hour',
  })
})
