import { createServer } from 'node:net'
import t from 'tap'
import { parseConfig } from '../../src/index.js'
import { fleet, fleetThat, load } from './fake-fleet.js'

t.test('all workers start with the same data, except their number', async t => {
  const { start, workers, events } = fleet()
  const running = await start(load(), 3)
  t.same(
    workers.map(({ started }) => [started?.startId, started?.context.number, started?.context.admin]),
    [1, 2, 3].map(number => ['start', number, undefined]),
  )
  t.equal(running.proxy[0]?.port, 3128)
  t.match(
    events.map(({ event, worker, worker_pid }) => [event, worker, worker_pid]),
    [1, 2, 3].map(number => ['worker_started', number, 999 + number]),
  )
  await running.drain()
  t.same(
    workers.map(({ told }) => told),
    workers.map(() => ['start', 'drain']),
  )
})

t.test('an error of the first worker is reported once, and no other is started', async t => {
  const { start, workers } = fleet({
    onStart: () => {
      throw new Error('listen EADDRINUSE: address already in use 127.0.0.1:1')
    },
  })
  await t.rejects(start(), { message: 'listen EADDRINUSE: address already in use 127.0.0.1:1' })
  t.equal(workers.length, 1)
  t.same(workers[0]?.told, ['start', 'kill'])
})

t.test('a first worker that ends without an error is reported too', async t => {
  const { start, workers, until } = fleet({ onStart: () => new Promise(() => {}) })
  const starting = start()
  await until(() => workers[0]?.told.length === 1)
  workers[0]?.exit({ signal: 'SIGSEGV' })
  await t.rejects(starting, {
    name: 'WorkerEnded',
    message: 'the first worker ended before it served: SIGSEGV',
  })
})

t.test('its exit code or signal is reported', async t => {
  for (const [exit, told] of [
    [{ code: 1 }, 'exit code 1'],
    [{ error: 'spawn EAGAIN' }, 'spawn EAGAIN'],
  ] as const) {
    const { start, workers, until } = fleet({ onStart: () => new Promise(() => {}) })
    const starting = start()
    await until(() => workers.length === 1)
    workers[0]?.exit(exit)
    await t.rejects(starting, {
      name: 'WorkerEnded',
      message: `the first worker ended before it served: ${told}`,
    })
  }
})

t.test('a worker that dies is replaced, later each time', async t => {
  const { start, workers, events, pauses, until, advance } = fleet()
  const running = await start()
  for (const [index, ms] of [100, 200, 400].entries()) {
    workers[index + 1]?.exit({ signal: 'SIGKILL' })
    await until(() => pauses.length === index + 1)
    t.equal(pauses[index]?.ms, ms)
    t.equal(workers.length, index + 2, 'not before that')
    pauses[index]?.end()
    await until(() => events.at(-1)?.event === 'worker_started')
  }
  t.match(events.at(-2), {
    level: 'error',
    event: 'worker_exited',
    worker: 4,
    worker_pid: 1003,
    signal: 'SIGKILL',
    restart_ms: 400,
  })
  advance(10_000)
  workers[4]?.exit({ code: 70 })
  await until(() => pauses.length === 4)
  t.equal(pauses[3]?.ms, 100, 'after ten seconds of life as the first time')
  t.same(workers[0]?.told, ['start'], 'the other does not notice')
  const restarts = (await running.metrics())
    .flat()
    .filter(({ name }) => name === 'sluice_worker_restarts_total')
  t.same(
    restarts.map(({ values }) => values[0]?.value),
    [3],
    'the one that waits has not begun',
  )
  await running.drain()
  t.equal(workers.length, 5, 'nobody is replaced at the end')
})

t.test('a later worker that cannot start is started again', async t => {
  let tries = 0
  const failing = {
    onStart: () => {
      tries += 1
      if (tries === 1) throw new Error('no memory')
    },
  }
  const { start, workers, events, pauses, until } = fleet({}, failing)
  const running = await start()
  await until(() => pauses.length === 1)
  t.match(events.at(-1), { event: 'worker_exited', worker: 2, error: 'no memory', restart_ms: 100 })
  pauses[0]?.end()
  await until(() => events.at(-1)?.['worker'] === 3)
  t.equal(workers.length, 3)
  await running.drain()
})

t.test('failed attempts at one worker are counted by the others', async t => {
  const { start, workers, pauses, advance, until } = fleet()
  const running = await start(load(), 3)
  t.same(workers[2]?.started?.failures, [])
  await workers[1]?.supervisor.ask('failedAttempt', '192.0.2.1')
  await until(() => workers[2]?.told.includes('failed 192.0.2.1') === true)
  t.same(workers[0]?.told, ['start', 'failed 192.0.2.1'])
  t.same(workers[1]?.told, ['start'])
  advance(1000)
  workers[1]?.exit({ signal: 'SIGKILL' })
  await until(() => pauses.length === 1)
  pauses[0]?.end()
  await until(() => workers[3]?.started !== undefined)
  t.same(workers[3]?.started?.failures, [['192.0.2.1', [1000]]], 'one that comes later knows of them')
  await running.drain()
})

t.test('the output of workers is passed on in whole lines', async t => {
  const { start, workers, passed, until } = fleet()
  const running = await start()
  workers[0]?.stdout.write('{"a":')
  workers[1]?.stdout.write('{"b":1}\n')
  await until(() => passed.log !== '')
  workers[0]?.stdout.write('1}\n')
  workers[0]?.stderr.write('oh\n')
  await until(() => passed.error !== '' && passed.log.includes('a'))
  t.same(passed, { log: '{"b":1}\n{"a":1}\n', error: 'oh\n' })
  await running.drain()
})

t.test('the error of the first worker keeps its name', async t => {
  const { start } = fleet({
    onStart: () => {
      throw Object.assign(new Error('not installed'), { name: 'TracingUnavailable' })
    },
  })
  await t.rejects(start(), { name: 'TracingUnavailable', message: 'not installed' })
})

t.test('the listeners of the first worker are passed to all others, and to later ones', async t => {
  const { start, workers, pauses, until } = fleetThat({ reusePort: true })
  const loaded = parseConfig('version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: false }\n')
  const running = await start(loaded, 3)
  workers[0]?.exit({ signal: 'SIGKILL' })
  await until(() => pauses.length === 1)
  pauses[0]?.end()
  await until(() => workers[3]?.hash !== undefined)
  const bound = { proxy: [{ host: '127.0.0.1', port: 0 }], tls: undefined, admin: undefined }
  t.same(
    workers.map(({ started }) => started?.context),
    [undefined, bound, bound, bound].map((known, index) => ({
      number: index + 1,
      admin: undefined,
      reusePort: true,
      bound: known,
    })),
  )
  await running.drain()
})

t.test('where workers share a port, it must be free when the first one is about to bind it', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const loaded = parseConfig(`version: 1\nlisten: { proxy: ["127.0.0.1:${port}"], admin: false }\n`)
  const sharing = fleetThat({ reusePort: true })
  await t.rejects(sharing.start(loaded), {
    code: 'EADDRINUSE',
    message: `listen EADDRINUSE: address already in use 127.0.0.1:${port}`,
  })
  t.same(
    sharing.workers.map(({ told }) => told),
    [['kill']],
  )
  const handed = fleetThat({ reusePort: false })
  await (await handed.start(loaded)).drain()
  t.equal(handed.workers.length, 2, 'where they do not, that is for node:cluster to find out')
  await new Promise(resolve => server.close(resolve))
})

t.test(
  'when a worker is killed each of its exchanges gets its close, and its exit says how many there were',
  async t => {
    const { start, workers, events, passed, until, pauses } = fleet()
    const running = await start()
    const head = (event: string) =>
      `{"level":"info","time":"1970-01-01T00:00:00.000Z","schema":1,"event":"${event}"`
    const line = (id: string) =>
      `${head('decision')},"id":"${id}","kind":"connect","host":"a.test","decision":"allow"}\n`
    const written = [line('x-1-1'), line('x-1-2'), `${head('close')},"id":"x-1-1"}\n`].join('')
    workers[0]?.stdout.write(written)
    workers[1]?.stdout.write(line('x-2-1'))
    await until(() => passed.log.length > written.length)
    await workers[0]?.supervisor.ask('acquire', { key: 'tunnels', limit: 9 })
    await workers[0]?.supervisor.ask('acquire', { key: 'tunnels ci', limit: 9 })
    workers[0]?.exit({ signal: 'SIGKILL' })
    await until(() => pauses.length === 1)
    t.match(events.slice(-2), [
      {
        level: 'info',
        event: 'close',
        id: 'x-1-2',
        kind: 'connect',
        host: 'a.test',
        close_reason: 'worker_exited',
      },
      { event: 'worker_exited', worker: 1, signal: 'SIGKILL', restart_ms: 100, exchanges: 1, tunnels: 1 },
    ])
    await running.drain()
  },
)
