import t from 'tap'
import { NO_CLIENT_LIMITS, type TunnelTimes } from '../../src/limits/client-limits.js'
import { A_PLACE } from '../kit/fakes/no-limits.js'
import { type OpenTunnel, TunnelRegistry } from '../../src/tunnel/registry.js'
import type { AdmittedExchange, Carrier } from '../../src/pipeline/admitted-exchange.js'
import { until } from '../kit/until.js'
import type { PumpResult, RunningPump } from '../../src/tunnel/pump.js'

const RULES = rulesOf(async () => true)

class StubPump implements RunningPump {
  readonly calls: string[] = []
  readonly finished: Promise<PumpResult>
  bytesUp = 0
  bytesDown = 0
  #resolve: (result: PumpResult) => void = () => {}

  constructor() {
    this.finished = new Promise(resolve => {
      this.#resolve = resolve
    })
  }

  check(now: number, { idleMs }: TunnelTimes): void {
    this.calls.push(`check ${now}${Number.isFinite(idleMs) ? ` idle ${idleMs}` : ''}`)
  }

  stop(reason: string): void {
    this.calls.push(`stop ${reason}`)
  }

  async end(): Promise<void> {
    this.#resolve({ bytesUp: this.bytesUp, bytesDown: this.bytesDown, reason: 'complete' })
    await this.finished
  }
}

function rulesOf(isAllowed: (tunnel: OpenTunnel) => Promise<boolean>, limits = NO_CLIENT_LIMITS) {
  return {
    open: 0,
    judge: () => async (tunnel: OpenTunnel) => ((await isAllowed(tunnel)) ? limits : undefined),
    tunnelOpened() {
      this.open += 1
    },
    tunnelClosed() {
      this.open -= 1
    },
  }
}

/** Registers the tunnel of a CONNECT with this id. */
function opened(
  pumps: TunnelRegistry,
  id: string,
  pump: StubPump,
  rules = RULES,
  who: object = { client: 'ci', user: 'alice' },
): boolean {
  const subject = {
    id,
    ...who,
    clientAddress: '10.0.0.1',
    kind: 'connect',
    method: 'CONNECT',
    host: 'a.test',
    port: 443,
  }
  const exchange = {
    id,
    clientAddress: '10.0.0.1',
    slot: A_PLACE,
    becameTunnel: (carrier: Carrier) => pump.calls.push(`carries ${carrier === pump}`),
  }
  const admitted = { exchange, subject, rule: 'web', limits: NO_CLIENT_LIMITS } as unknown as AdmittedExchange
  const may = pumps.open(pump, admitted, { address: '192.0.2.1', parent: undefined }, rules)
  // The exchange has been notified by now; the tests are about what follows.
  if (pump.calls.shift() !== 'carries true') throw new Error('the exchange does not know its tunnel')
  return may
}

function connected(pumps: TunnelRegistry, id: string, bytes: number): StubPump {
  const pump = new StubPump()
  pump.bytesUp = bytes
  opened(pumps, id, pump)
  return pump
}

t.test('total bytes include running and closed tunnels, and never decrease', async t => {
  let ended = 0
  const pumps = new TunnelRegistry(() => 0)
  pumps.onEnd(() => {
    ended += 1
  })
  const [a, b] = [new StubPump(), new StubPump()]
  const read = () => [pumps.size, pumps.bytesUp, pumps.bytesDown, ended]
  t.same(read(), [0, 0, 0, 0])
  opened(pumps, 'a', a)
  opened(pumps, 'b', b)
  a.bytesUp = 3
  b.bytesDown = 5
  t.same(read(), [2, 3, 5, 0])
  await a.end()
  t.same(read(), [1, 3, 5, 1])
  b.bytesUp = 10
  t.same(read(), [1, 13, 5, 1])
  await b.end()
  t.same(read(), [0, 13, 5, 2])
})

t.test('checks and stops running tunnels, and not closed ones', async t => {
  const pumps = new TunnelRegistry(() => 0)
  const [a, b] = [new StubPump(), new StubPump()]
  opened(pumps, 'a', a)
  opened(pumps, 'b', b)
  pumps.check(7)
  await a.end()
  pumps.check(8)
  pumps.stop('shutdown')
  t.same(a.calls, ['check 7'])
  t.same(b.calls, ['check 7', 'check 8', 'stop shutdown'])
})

t.test('lists open tunnels with their clients, those with the most bytes if there are too many', async t => {
  const clock = { ms: 1000 }
  const pumps = new TunnelRegistry(() => clock.ms)
  const first = connected(pumps, 'x-1', 3)
  clock.ms = 3500
  connected(pumps, 'x-2', 9)
  t.same(pumps.list(2), {
    open: 2,
    listed: [
      {
        id: 'x-1',
        client: 'ci',
        user: 'alice',
        clientAddress: '10.0.0.1',
        kind: 'connect',
        host: 'a.test',
        port: 443,
        rule: 'web',
        address: '192.0.2.1',
        ageMs: 2500,
        bytesUp: 3,
        bytesDown: 0,
      },
      { ...pumps.list(1).listed[0] },
    ],
  })
  t.same(
    pumps.list(1).listed.map(({ id }) => id),
    ['x-2'],
  )
  t.equal(pumps.opened, 2)
  await first.end()
  t.equal(pumps.list(2).open, 1)
  t.equal(pumps.opened, 2)
})

t.test('reports the clients with the most tunnels: users at any address, others by address', async t => {
  const pumps = new TunnelRegistry(() => 0)
  const ended = new StubPump()
  for (const [index, who] of [
    { client: 'ci', user: undefined },
    { client: 'ci', user: 'alice' },
    { client: 'agents', user: 'alice' },
    { client: 'ci', user: 'alice' },
    { client: 'ci', user: '10.0.0.1' },
  ].entries()) {
    opened(pumps, `x-${index}`, index === 4 ? ended : new StubPump(), RULES, who)
  }
  const told = () =>
    pumps.shares(3).map(({ client, user, clientAddress, tunnels }) => [client, user, clientAddress, tunnels])
  t.same(told(), [
    ['ci', 'alice', undefined, 2],
    ['ci', undefined, '10.0.0.1', 1],
    ['agents', 'alice', undefined, 1],
  ])
  t.equal(pumps.shares(9).length, 4, 'a user is not the address that it is called')
  await ended.end()
  t.equal(pumps.shares(9).length, 3)
})

t.test('stops a single tunnel by the id of its exchange', async t => {
  const pumps = new TunnelRegistry(() => 0)
  const [a, b] = [connected(pumps, 'x-1', 0), connected(pumps, 'x-10', 0)]
  t.equal(pumps.stopOne('x-2', 'operator'), false)
  t.equal(pumps.stopOne('x-1', 'operator'), true)
  t.same([a.calls, b.calls], [['stop operator'], []])
  await a.end()
  t.equal(pumps.stopOne('x-1', 'operator'), false, 'not any more')
})

t.test('does not count a tunnel that closes while it is being judged as stopped', async t => {
  const pumps = new TunnelRegistry(() => 0)
  const [ending, refused, allowed] = ['x-1', 'x-2', 'x-3'].map(id => connected(pumps, id, 0))
  const stopped = await pumps.enforce(
    rulesOf(async ({ admitted: { exchange } }) => {
      if (exchange.id === 'x-1') await ending?.end()
      return exchange.id === 'x-3'
    }),
  )
  t.equal(stopped, 1)
  t.same([ending?.calls, refused?.calls, allowed?.calls], [[], ['stop policy'], []])
})

t.test('keeps a tunnel that was allowed by replaced rules only if the rules in force allow it', async t => {
  const pumps = new TunnelRegistry(() => 0)
  const asked: string[] = []
  const before = rulesOf(async () => true)
  const after = rulesOf(async ({ admitted: { exchange } }) => {
    asked.push(exchange.id)
    return exchange.id === 'late'
  })
  t.equal(opened(pumps, 'first', new StubPump(), before), true, 'no others are in force')
  t.equal(await pumps.enforce(before), 0)
  const [late, refused, own] = [new StubPump(), new StubPump(), new StubPump()]
  t.equal(await pumps.enforce(after), 1)
  t.same(asked.splice(0), ['first'])
  t.equal(opened(pumps, 'late', late, before), false)
  t.equal(opened(pumps, 'refused', refused, before), false)
  t.equal(opened(pumps, 'own', own, after), true)
  await until('both to be judged', () => asked.length === 2 && refused.calls.length > 0)
  t.same([late.calls, refused.calls, own.calls], [[], ['stop policy'], []])
  t.same([before.open, after.open], [3, 1])
  await late.end()
  t.same([before.open, after.open], [2, 1])
})

t.test('a tunnel that may stay goes on with the limits that its client has now', async t => {
  const pumps = new TunnelRegistry(() => 0)
  const tunnelTimes = { idleMs: 5, lifetimeMs: 50 }
  const [a, b] = [new StubPump(), new StubPump()]
  opened(pumps, 'a', a)
  opened(pumps, 'b', b)
  pumps.check(1)
  const rules = rulesOf(async ({ admitted }) => admitted.exchange.id === 'a', {
    ...NO_CLIENT_LIMITS,
    tunnelTimes,
  })
  t.equal(await pumps.enforce(rules), 1)
  await b.end()
  pumps.check(2)
  t.same(a.calls, ['check 1', 'check 2 idle 5'])
  t.same(b.calls, ['check 1', 'stop policy'])
})
