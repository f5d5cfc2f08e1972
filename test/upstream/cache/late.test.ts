import { once } from 'node:events'
import t from 'tap'
import { lateAfter } from '../../../src/upstream/cache/late.js'
import { rawOrigin } from '../../kit/peers/raw-origin.js'
import { rawClient } from '../../kit/peers/raw-peer.js'

const TIMEOUT_MS = 20

function keepBusy(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

t.test('an answer that has arrived while the process was busy is not late', async t => {
  const origin = await rawOrigin(t)
  const client = await rawClient(t, origin.port)
  const server = await origin.accept()
  const order: string[] = []
  const cancel = lateAfter(TIMEOUT_MS, () => order.push('late'))
  client.socket.once('data', () => {
    order.push('answer')
    cancel()
  })
  server.write('answer')
  keepBusy(2 * TIMEOUT_MS)
  await once(client.socket, 'data')
  await new Promise(resolve => setTimeout(() => setImmediate(resolve), TIMEOUT_MS))
  t.same(order, ['answer'])
})

t.test('what takes a busy process twenty turns is not late, however long each of them is', async t => {
  const order: string[] = []
  const cancel = lateAfter(TIMEOUT_MS, () => order.push('late'))
  for (let i = 0; i < 20; i++) {
    await new Promise(resolve => setImmediate(resolve))
    keepBusy(TIMEOUT_MS / 5)
  }
  order.push('answer')
  cancel()
  await new Promise(resolve => setTimeout(() => setImmediate(resolve), TIMEOUT_MS))
  t.same(order, ['answer'])
})

t.test('what has not arrived by then is late', async t => {
  const late = new Promise<string>(resolve => {
    lateAfter(TIMEOUT_MS, () => resolve('late'))
  })
  keepBusy(2 * TIMEOUT_MS)
  t.equal(await late, 'late')
})

t.test('it is late after the time, and not before', async t => {
  const since = performance.now()
  await new Promise<void>(resolve => {
    lateAfter(TIMEOUT_MS, resolve)
  })
  t.ok(performance.now() - since >= TIMEOUT_MS)
})

t.test('taken back between the timer and the turn after it, it is not late either', async t => {
  const order: string[] = []
  const cancel = lateAfter(1, () => order.push('late'))
  setTimeout(() => cancel(), 1)
  keepBusy(5)
  for (let i = 0; i < 50; i++) await new Promise(resolve => setTimeout(() => setImmediate(resolve), 1))
  t.same(order, [])
})
