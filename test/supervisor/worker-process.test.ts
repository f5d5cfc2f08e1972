import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import t from 'tap'
import { HandedConnections } from '../../src/supervisor/worker-process.js'

class Handle {
  fd = 9

  close(): void {
    this.fd = -1
  }
}

type Hand = (message: unknown, handle?: unknown) => boolean

function worker() {
  const sent: unknown[][] = []
  const send = (...args: unknown[]) => sent.push(args) > 0
  const child = Object.assign(new EventEmitter(), { send }) as unknown as ChildProcess
  // Read each time, as it is replaced.
  const hand: Hand = (...args) => (child.send as Hand)(...args)
  return { child, sent, hand }
}

t.test('connections on their way to a worker are closed when it ends', async t => {
  const { child, sent, hand } = worker()
  new HandedConnections().watch(child)
  const [arrived, first, second] = [new Handle(), new Handle(), new Handle()]
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
  child.emit('close', null, 'SIGKILL')
  t.same([first.fd, second.fd], [-1, -1])
  t.same(close(), [], 'what has arrived is left alone')
})

t.test('a connection that a worker refuses is closed, unless another has it by then', async t => {
  const handed = new HandedConnections()
  const [first, second] = [worker(), worker()]
  const [moved, refused, other] = [new Handle(), new Handle(), new Handle()]
  // Like node:cluster, which listens first.
  first.child.on('internalMessage', ({ ack }: { ack: number }) => {
    if (ack === 1) second.hand({ seq: 4 }, moved)
  })
  for (const { child } of [first, second]) handed.watch(child)
  first.hand({ seq: 1 }, moved)
  first.hand({ seq: 2 }, refused)
  first.hand({ seq: 3 }, other)
  second.child.emit('internalMessage', { ack: 2, accepted: false })
  t.equal(refused.fd, 9, 'the numbers are those of each worker')
  first.child.emit('internalMessage', { ack: 1, accepted: false })
  first.child.emit('internalMessage', { ack: 2, accepted: false })
  first.child.emit('internalMessage', { ack: 3, accepted: true })
  first.child.emit('internalMessage', 'NODE_SOMETHING')
  t.same([moved.fd, refused.fd, other.fd], [9, -1, 9])
  first.child.emit('close', 0, null)
  t.equal(moved.fd, 9, 'it is on its way to the other')
  second.child.emit('internalMessage', { ack: 4, accepted: false })
  t.equal(moved.fd, -1)
})

t.test('a closed connection is passed to nobody', async t => {
  const { child, sent, hand } = worker()
  new HandedConnections().watch(child)
  const handle = new Handle()
  handle.close()
  t.equal(hand({ seq: 1 }, handle), true)
  t.same(sent, [])
})
