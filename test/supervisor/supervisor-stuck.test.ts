/** Workers that do not respond any more, and do not end by themselves. */
import t from 'tap'
import { parseConfig } from '../../src/index.js'
import { PURGE_SECONDS } from '../../src/supervisor/waits.js'
import { fleet, load } from './fake-fleet.js'

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await new Promise(resolve => setImmediate(resolve))
}

/** Sends a heartbeat to a worker: the first one that serves and was not asked yet. */
async function beat({ beats }: ReturnType<typeof fleet>): Promise<void> {
  beats.shift()?.end()
  await turns()
}

/** Lets a second pass for calls that wait for an answer. */
async function second({ steps }: ReturnType<typeof fleet>): Promise<void> {
  for (const { end } of steps.splice(0)) end()
  await turns()
}

t.test('status and closing a tunnel wait two seconds for an unresponsive worker', async t => {
  const fake = fleet()
  const { start, workers } = fake
  const running = await start(load())
  await second(fake)
  for (const worker of workers.slice(0, 1)) worker.frozen = true
  for (const ask of [
    async () =>
      t.same(
        (await running.status()).map(({ worker }) => worker),
        [2],
      ),
    async () => t.equal(await running.closeTunnel('tunnel-1001'), true),
    async () => t.equal(await running.closeTunnel('tunnel-1000'), false, 'nobody knows'),
  ]) {
    let answered = false
    const asked = ask().then(() => {
      answered = true
    })
    await second(fake)
    t.equal(answered, false)
    await second(fake)
    await asked
  }
  workers[0]?.exit({ signal: 'SIGKILL' })
  await running.drain()
})

t.test('a purge waits longer for it, and reports that it is not done', async t => {
  const fake = fleet({ onPurge: () => 1 })
  const { start, workers } = fake
  const running = await start(load('cache: memory'))
  await second(fake)
  for (const worker of workers.slice(0, 1)) worker.frozen = true
  let refused: unknown
  const purge = running.purgeCache({ kind: 'all' }).catch(error => {
    refused = error
  })
  for (let passed = 0; passed < PURGE_SECONDS; passed++) {
    t.equal(refused, undefined)
    await second(fake)
  }
  await purge
  t.match(refused, { message: 'a worker has not purged its cache in time' })
  workers[0]?.exit({ signal: 'SIGKILL' })
  await running.drain()
})

t.test('an unresponsive worker is killed and replaced, and a reload continues with the others', async t => {
  const fake = fleet()
  const { start, workers, events, pauses, until } = fake
  const running = await start()
  await second(fake)
  const [first] = workers
  if (first !== undefined) first.frozen = true
  const loaded = load('deny: { hosts: [a.test] }')
  await beat(fake)
  let reloaded = false
  const reload = running.reload(loaded).then(() => {
    reloaded = true
  })
  await turns()
  for (let passed = 0; passed < 15; passed++) {
    t.equal(workers[1]?.hash === loaded.hash, passed >= 2, `${passed} s`)
    t.equal(reloaded, passed >= 2)
    t.equal(first?.told.includes('kill'), false, `${passed} s`)
    await second(fake)
  }
  t.equal(first?.told.includes('kill'), true)
  await reload
  await until(() => pauses.length === 1)
  t.match(
    events.find(({ event }) => event === 'worker_exited'),
    { worker: 1, signal: 'SIGKILL', error: 'it did not answer for 15 s', restart_ms: 100 },
  )
  pauses[0]?.end()
  await until(() => workers.length === 3 && workers[2]?.hash !== undefined)
  t.equal(workers[2]?.hash, loaded.hash)
  await until(() => events.filter(({ event }) => event === 'worker_started').length === 3)
  await running.drain()
})

t.test('is not ready while no worker responds', async t => {
  const fake = fleet()
  const { start, workers } = fake
  const running = await start(parseConfig('version: 1\nworkers: 2\nlisten: { admin: "127.0.0.1:0" }\n'))
  const { admin } = running
  if (admin === undefined || !('port' in admin)) throw new Error('no admin listener')
  const ready = async () => (await fetch(`http://127.0.0.1:${admin.port}/ready`)).status
  t.equal(await ready(), 200)
  for (const worker of workers) worker.frozen = true
  await beat(fake)
  await second(fake)
  await second(fake)
  t.equal(await ready(), 200, 'the other one may be well')
  await beat(fake)
  await second(fake)
  await second(fake)
  t.equal(await ready(), 503)
  for (const worker of workers) worker.exit({ signal: 'SIGKILL' })
  await running.drain()
})

const NEVER = { onStart: () => new Promise<void>(() => {}) }

t.test('a first worker that does not serve within half a minute ends the start', async t => {
  const fake = fleet(NEVER)
  const { start, workers } = fake
  const starting = t.rejects(start(), {
    name: 'WorkerEnded',
    message: 'the first worker ended before it served: it did not serve within 30 s',
  })
  await turns()
  for (let passed = 0; passed < 30; passed++) {
    t.equal(workers[0]?.told.includes('kill'), false, `${passed} s`)
    await second(fake)
  }
  await starting
  t.equal(workers.length, 1)
})

t.test('another worker is replaced then', async t => {
  const fake = fleet({}, NEVER, {})
  const { start, workers, events, pauses, until } = fake
  const starting = start()
  await until(() => workers[1]?.told.includes('start') === true)
  for (let passed = 0; passed < 30; passed++) await second(fake)
  const running = await starting
  await until(() => pauses.length === 1)
  t.match(
    events.find(({ event }) => event === 'worker_exited'),
    { worker: 2, error: 'it did not serve within 30 s', restart_ms: 100 },
  )
  pauses[0]?.end()
  await until(() => events.some(({ event, worker }) => event === 'worker_started' && worker === 3))
  await running.drain()
})

t.test('a start can be interrupted whatever the first worker does, and no process is left', async t => {
  const { start, workers, interrupt, until } = fleet(NEVER)
  const starting = t.rejects(start(), { name: 'WorkerEnded' })
  await until(() => workers[0]?.told.includes('start') === true)
  interrupt()
  await starting
  t.equal(workers.length, 1)
  t.ok(workers[0]?.told.includes('kill'))
})

t.test('a start that is interrupted before it begins starts nothing', async t => {
  const { start, workers, interrupt } = fleet()
  interrupt()
  await t.rejects(start(), { name: 'WorkerEnded' })
  t.equal(workers.length, 0)
})

t.test('a start that is interrupted when a worker serves leaves it to be drained', async t => {
  const { start, workers, interrupt, until } = fleet({}, NEVER, NEVER)
  const starting = start(load(), 3)
  await until(() => workers[2]?.told.includes('start') === true)
  interrupt()
  const running = await starting
  t.equal(running.proxy[0]?.port, 3128)
  await running.drain()
  const [first, ...others] = workers
  t.same(first?.told, ['start', 'drain'])
  t.same(
    others.map(({ told }) => [...new Set(told)]),
    [
      ['start', 'kill'],
      ['start', 'kill'],
    ],
  )
})
