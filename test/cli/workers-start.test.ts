/** Starts of `sluice run` that fail: with worker processes they end as they do without. */
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { run } from '../../src/run/run.js'
import type { WorkerExit } from '../../src/supervisor/worker-process.js'
import { FakeWorker } from '../supervisor/fake-worker.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { fakeHost, type Said, sluice } from './fake-host.js'
import { configured, FREE } from '../kit/processes/fleet.js'
import { installCopy, installProgram, startProgram } from '../kit/processes/program.js'

const program = await installProgram(t)

type Start = (...args: string[]) => Promise<Said & { readonly code: number | null }>

/** As a process of its own. */
function starting(t: Test, command: readonly string[]): Start {
  return async (...args) => {
    const running = startProgram(t, [...command, ...args])
    const code = await running.exited
    return { code, stdout: running.stdout, stderr: running.stderr }
  }
}

/**
 * That it ends in the same way whatever `workers` says.
 * @param alone how it is started where there are none
 */
async function endsAlike(
  t: Test,
  { alone, withWorkers }: { readonly alone: Start; readonly withWorkers: Start },
  yaml: string,
  expected: { readonly code: number; readonly stderr: RegExp },
): Promise<void> {
  const seen: unknown[] = []
  for (const [start, workers] of [
    [alone, 1],
    [withWorkers, 2],
  ] as const) {
    const ended = await start('--config', await configured(t, yaml, workers))
    t.equal(ended.code, expected.code, `workers: ${workers}`)
    t.match(ended.stderr, expected.stderr)
    t.equal(ended.stdout, '')
    seen.push(ended.stderr)
  }
  t.equal(seen[0], seen[1])
}

t.test('an address that cannot be bound is reported in the same words, with 69', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const folder = await temporaryDirectory(t)
  const table: readonly [string, RegExp][] = [
    [
      `["127.0.0.1:0", "127.0.0.1:${port}"]`,
      /^sluice: cannot listen at listen\.proxy \(--listen\): listen EADDRINUSE: address already in use 127\.0\.0\.1:\d+\n$/,
    ],
    ['["192.0.2.1:80"]', /: listen EADDRNOTAVAIL: address not available 192\.0\.2\.1:80\n$/],
    [
      '["192.0.2.1:0"]',
      / at listen\.proxy \(--listen\): listen EADDRNOTAVAIL: address not available 192\.0\.2\.1\n$/,
    ],
    ['["unix:/proc/a.sock"]', /: listen E[A-Z]+: [a-z ]+ \/proc\/a\.sock\n$/],
    [`["unix:${folder}/a/b.sock"]`, /: \S+ cannot be created: the folder \S+ does not exist\n$/],
    ['["systemd"]', /: listen\.proxy is systemd, and systemd passed no socket: LISTEN_FDS is not set\n$/],
  ]
  const both = { alone: sluice, withWorkers: starting(t, program) }
  for (const [proxy, stderr] of table) {
    await endsAlike(t, both, `listen: { proxy: ${proxy}, admin: false }`, { code: 69, stderr })
  }
  const admin = `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:${port}" }`
  await endsAlike(t, both, admin, {
    code: 69,
    stderr: /^sluice: cannot listen at listen\.admin \(--admin\): listen EADDRINUSE: /,
  })
})

t.test('missing tracing packages are reported with 78', async t => {
  const yaml = `listen: { ${FREE} }\ntracing: { otlp: "http://127.0.0.1:1/v1/traces" }`
  const start = starting(t, await installCopy(t, '@opentelemetry'))
  await endsAlike(t, { alone: start, withWorkers: start }, yaml, {
    code: 78,
    stderr: /^sluice: tracing needs the optional dependencies [^\n]*\n$/,
  })
})

/** Starts, with a first worker that ends before it serves. */
async function startInVain(t: Test, exit: WorkerExit, stopped: Promise<string>) {
  const { host, said } = fakeHost({
    fork: () => {
      const worker: FakeWorker = new FakeWorker(7, { onStart: () => worker.exit(exit) })
      return worker.process
    },
    awaitStop: () => stopped,
  })
  const config = await configured(t, 'listen: { proxy: ["127.0.0.1:0"], admin: false }')
  return { code: await run({ config }, host), stderr: said.stderr }
}

t.test('a first worker that ends before it serves is a fault, unless a stop was requested', async t => {
  for (const [exit, told] of [
    [{ signal: 'SIGKILL' }, 'SIGKILL'],
    [{ code: 1 }, 'exit code 1'],
    [{ signal: 'SIGINT' }, 'SIGINT'],
  ] as const) {
    t.same(await startInVain(t, exit, new Promise(() => {})), {
      code: 70,
      stderr: `sluice: the first worker ended before it served: ${told}\n`,
    })
    t.same(await startInVain(t, exit, Promise.resolve('SIGINT')), { code: 0, stderr: '' })
  }
})

t.test('a first worker that is ended by a signal for all processes is no fault', async t => {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    const heardLater = delay(100, signal)
    t.same(await startInVain(t, { signal }, heardLater), { code: 0, stderr: '' })
  }
})
