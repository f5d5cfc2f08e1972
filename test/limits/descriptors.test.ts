import { closeSync, openSync } from 'node:fs'
import { Socket } from 'node:net'
import { devNull } from 'node:os'
import t from 'tap'
import {
  descriptorOf,
  KEPT_DESCRIPTORS,
  LimitedDescriptors,
  nextDescriptor,
  NO_DESCRIPTOR_KEPT,
} from '../../src/limits/descriptors.js'
import { connectedPair } from '../kit/peers/connected-pair.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'

t.test('the last descriptors are kept, as the limit is now', async t => {
  const clock = new ManualClock()
  let limit: number | undefined = 100
  const descriptors = new LimitedDescriptors(() => limit, clock.now)
  const kept = (): boolean[] => [83, 84, 99].map(descriptor => descriptors.isKept(descriptor))
  t.same(kept(), [false, true, true])
  t.notOk(descriptors.isKept(undefined))
  limit = 1000
  clock.advance(999)
  t.same(kept(), [false, true, true], 'it is looked at once a second')
  clock.advance(1)
  t.same(kept(), [false, false, false])
  limit = KEPT_DESCRIPTORS + 83
  clock.advance(1000)
  t.same(kept(), [true, true, true])
  limit = undefined
  clock.advance(1000)
  t.same(kept(), [true, true, true], 'what was known last holds')
})

t.test('where no limit is known none is kept', async t => {
  const descriptors = new LimitedDescriptors(
    () => undefined,
    () => 0,
  )
  t.notOk(descriptors.isKept(1 << 20))
  t.notOk(NO_DESCRIPTOR_KEPT.isKept(1 << 20))
})

t.test('the next one is that which a file gets that is opened', t => {
  const next = nextDescriptor()
  const file = openSync(devNull, 'r')
  t.equal(file, next)
  t.not(nextDescriptor(), next)
  closeSync(file)
  t.equal(nextDescriptor(), next, 'and it is free again')
  t.end()
})

t.test('a socket has one from when it is open until it is closed', async t => {
  t.equal(descriptorOf(new Socket()), undefined)
  const { client, socket } = await connectedPair(t)
  t.ok((descriptorOf(socket) ?? 0) > 2)
  t.not(descriptorOf(socket), descriptorOf(client.socket))
  socket.destroy()
  t.equal(descriptorOf(socket), undefined)
})
