import t from 'tap'
import { LocalLedger } from '../../src/limits/ledger.js'
import { Conversation, type SupervisorCalls, type WorkerCalls } from '../../src/supervisor/messages.js'
import { WorkerReservations, RemoteLedger } from '../../src/supervisor/shared-ledger.js'
import { WorkerHandle } from '../../src/supervisor/worker-handle.js'
import { FakeWorker } from './fake-worker.js'

t.test('the reservations of a worker are released when it ends, and no others', async t => {
  const ledger = new LocalLedger(() => 0)
  const [one, other] = [new WorkerReservations(ledger), new WorkerReservations(ledger)]
  t.same(
    [one.acquire('a', 4), one.acquire('a', 4), other.acquire('a', 4), one.acquire('b', 1)],
    [true, true, true, true],
  )
  t.equal(other.acquire('b', 1), false)
  one.release('a')
  t.equal(ledger.held('a'), 2)
  one.releaseAll()
  t.equal(ledger.held('a'), 1)
  t.equal(ledger.held('b'), 0)
  one.releaseAll()
  t.equal(ledger.held('a'), 1)
})

t.test('no worker releases reservations of another', async t => {
  const ledger = new LocalLedger(() => 0)
  const [one, other] = [new WorkerReservations(ledger), new WorkerReservations(ledger)]
  one.acquire('a', 1)
  other.release('a')
  t.equal(ledger.held('a'), 1)
})

/** The ledger of two workers with the same supervisor. */
function workers() {
  const ledger = new LocalLedger(() => 0)
  const owner = { passLog: () => {}, passError: () => {}, failedAttempt: () => {}, ledger }
  const [one, other] = [1, 2].map(number => {
    const fake = new FakeWorker(number)
    const handle = new WorkerHandle(number, fake.process, owner, 0)
    return { fake, handle, remote: new RemoteLedger(fake.supervisor) }
  })
  if (one === undefined || other === undefined) throw new TypeError('two')
  return { ledger, one, other }
}

t.test('all workers use the same ledger', async t => {
  const { ledger, one, other } = workers()
  t.equal(await one.remote.acquire('a', 2), true)
  t.equal(await other.remote.acquire('a', 2), true)
  t.equal(await one.remote.acquire('a', 2), false)
  other.remote.release('a')
  t.equal(await one.remote.acquire('a', 2), true)
  t.equal(await one.remote.take('b', 1, 1), 0)
  t.equal(await other.remote.take('b', 1, 1), 1)
  t.equal(await one.remote.spend('c', 60, 100), 0)
  t.equal(await other.remote.spend('c', 60, 100), 3600)
  t.equal(ledger.held('a'), 2)
})

t.test('the reservations of a worker are released when it dies', async t => {
  const { ledger, one, other } = workers()
  await one.remote.acquire('a', 2)
  await other.remote.acquire('a', 2)
  one.handle.kill()
  await one.handle.exited
  t.equal(ledger.held('a'), 1)
})

t.test('without a supervisor everything is allowed', async t => {
  const alone = new Conversation<SupervisorCalls, WorkerCalls>({ send: () => {} }, {} as never)
  const remote = new RemoteLedger(alone)
  alone.end()
  t.equal(await remote.acquire('a', 0), true)
  t.equal(await remote.take('a', 1, 1), 0)
  t.equal(await remote.spend('a', 2, 1), 0)
  remote.release('a')
})
