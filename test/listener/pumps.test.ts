import t from 'tap'
import { A_PLACE } from '../kit/fakes/no-limits.js'
import { Pumps } from '../../src/listener/pumps.js'
import { ConnectionExchange } from '../../src/listener/connection-exchange.js'
import type { Exchange } from '../../src/exchange.js'
import type { PumpResult, RunningPump } from '../../src/relay/pump.js'

const NOT_OURS = {} as Exchange
const NOWHERE = { address: '', parent: undefined }

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

  check(now: number): void {
    this.calls.push(`check ${now}`)
  }

  stop(reason: string): void {
    this.calls.push(`stop ${reason}`)
  }

  async end(): Promise<void> {
    this.#resolve({ bytesUp: this.bytesUp, bytesDown: this.bytesDown, reason: 'complete' })
    await this.finished
  }
}

t.test('bytes are those of running pumps and of ended ones, and never fall', async t => {
  let ended = 0
  const pumps = new Pumps(
    () => {
      ended += 1
    },
    () => 0,
  )
  const [a, b] = [new StubPump(), new StubPump()]
  const read = () => [pumps.size, pumps.bytesUp, pumps.bytesDown, ended]
  t.same(read(), [0, 0, 0, 0])
  pumps.add(a, NOT_OURS, NOWHERE)
  pumps.add(b, NOT_OURS, NOWHERE)
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

t.test('those that run are checked and stopped, ended ones are left alone', async t => {
  const pumps = new Pumps(
    () => {},
    () => 0,
  )
  const [a, b] = [new StubPump(), new StubPump()]
  pumps.add(a, NOT_OURS, NOWHERE)
  pumps.add(b, NOT_OURS, NOWHERE)
  pumps.check(7)
  await a.end()
  pumps.check(8)
  pumps.stop('shutdown')
  t.same(a.calls, ['check 7'])
  t.same(b.calls, ['check 7', 'check 8', 'stop shutdown'])
})

/** A pump that came from a CONNECT with this id. */
function connected(pumps: Pumps, id: string, bytes: number): StubPump {
  const exchange = Object.assign(Object.create(ConnectionExchange.prototype), {
    id,
    clientAddress: '10.0.0.1',
    slot: A_PLACE,
    pumped: () => {},
    decision: {
      subject: {
        id,
        client: 'ci',
        clientAddress: '10.0.0.1',
        kind: 'connect',
        method: 'CONNECT',
        host: 'a.test',
        port: 443,
      },
      rule: 'web',
    },
  }) as ConnectionExchange
  const pump = new StubPump()
  pump.bytesUp = bytes
  pumps.add(pump, exchange, { address: '192.0.2.1', parent: undefined })
  return pump
}

t.test('lists what runs with who asked for it, those with the most bytes where not all can be', async t => {
  const clock = { ms: 1000 }
  const pumps = new Pumps(
    () => {},
    () => clock.ms,
  )
  const first = connected(pumps, 'x-1', 3)
  clock.ms = 3500
  connected(pumps, 'x-2', 9)
  t.same(pumps.list(2), {
    open: 2,
    listed: [
      {
        id: 'x-1',
        client: 'ci',
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

t.test('one is stopped by the id of its exchange, and no other', async t => {
  const pumps = new Pumps(
    () => {},
    () => 0,
  )
  const [a, b] = [connected(pumps, 'x-1', 0), connected(pumps, 'x-10', 0)]
  t.equal(pumps.stopOne('x-2', 'operator'), false)
  t.equal(pumps.stopOne('x-1', 'operator'), true)
  t.same([a.calls, b.calls], [['stop operator'], []])
  await a.end()
  t.equal(pumps.stopOne('x-1', 'operator'), false, 'not any more')
})

t.test('one that ends while it is judged is not among those that were stopped', async t => {
  const pumps = new Pumps(
    () => {},
    () => 0,
  )
  const [ending, refused, allowed] = ['x-1', 'x-2', 'x-3'].map(id => connected(pumps, id, 0))
  const stopped = await pumps.stopUnless(async ({ exchange }) => {
    if (exchange.id === 'x-1') await ending?.end()
    return exchange.id === 'x-3'
  })
  t.equal(stopped, 1)
  t.same([ending?.calls, refused?.calls, allowed?.calls], [[], ['stop policy'], []])
})
