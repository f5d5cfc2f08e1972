import t from 'tap'
import { Pumps } from '../../src/listener/pumps.js'
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
  const pumps = new Pumps(() => {
    ended += 1
  })
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
  const pumps = new Pumps(() => {})
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
