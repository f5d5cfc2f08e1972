import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import t from 'tap'
import { closeHandedConnections } from '../../src/supervisor/handed-connections.js'

class Handle {
  fd = 9

  close(): void {
    this.fd = -1
  }
}

t.test('what was on its way to a worker is closed when that ends', async t => {
  const sent: unknown[][] = []
  const send = (...args: unknown[]) => sent.push(args) > 0
  const worker = Object.assign(new EventEmitter(), { send }) as unknown as ChildProcess
  closeHandedConnections(worker)
  const [arrived, first, second] = [new Handle(), new Handle(), new Handle()]
  const hand = worker.send as (message: unknown, handle?: unknown) => boolean
  t.equal(hand('a', arrived), true)
  arrived.close()
  const close = t.capture(arrived, 'close')
  hand('b', first)
  hand('c')
  hand('d', second)
  t.same(sent, [
    ['a', arrived],
    ['b', first],
    ['c', undefined],
    ['d', second],
  ])
  worker.emit('close', null, 'SIGKILL')
  t.same([first.fd, second.fd], [-1, -1])
  t.same(close(), [], 'what has arrived is left alone')
})
