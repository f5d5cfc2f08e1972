import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { parseConfig } from '../../src/index.js'
import { LocalLedger } from '../../src/limits/ledger.js'
import { passWholeLines, WorkerHandle } from '../../src/supervisor/worker-handle.js'
import { counter } from './counter.js'
import { FakeWorker, type Script } from './fake-worker.js'

const loaded = parseConfig('version: 1\n')
const start = {
  loaded,
  startId: 'start',
  build: undefined,
  failures: [],
  passedSockets: undefined,
  context: { number: 1, admin: undefined, reusePort: false, bound: undefined },
}

function handle(script?: Script) {
  const failed: string[] = []
  const fake = new FakeWorker(7, script)
  const owner = {
    passLog: () => {},
    passError: () => {},
    ledger: new LocalLedger(() => 0),
    failedAttempt: (_: WorkerHandle, source: string) => void failed.push(source),
  }
  return { fake, failed, worker: new WorkerHandle(1, fake.process, owner, 0) }
}

t.test('only the data of a loaded configuration are sent, as a channel carries no functions', async t => {
  const { fake, worker } = handle()
  await worker.start(start)
  t.same(fake.started?.loaded.config, loaded.config)
  t.notOk(fake.started !== undefined && 'placeOf' in fake.started.loaded)
  await worker.reload({ ...loaded, hash: 'next' })
  t.equal(fake.hash, 'next')
})

t.test('when a worker ends, all calls to it fail, and its fault is reported with its exit', async t => {
  const { fake, worker } = handle({ onReload: () => new Promise(() => {}) })
  await worker.start(start)
  worker.serving = true
  const reloading = worker.reload(loaded)
  worker.kill(new Error('no memory'))
  worker.kill('later')
  t.equal(worker.serving, false)
  t.same(await worker.exited, { signal: 'SIGKILL', error: 'no memory' })
  await t.rejects(reloading, /has ended/)
  await t.rejects(worker.reload(loaded), /has ended/)
  t.equal(worker.alive, false)
  worker.drain()
  worker.countFailedAttempt('a')
  t.same(fake.told.slice(1), ['kill', 'kill'])
})

t.test('a worker that ends before it is ready cannot be started', async t => {
  const { fake, worker } = handle()
  const starting = worker.start(start)
  fake.exit({ code: 1 })
  await t.rejects(starting, /ended|gone/)
})

t.test('its failed attempts go to its owner', async t => {
  const { fake, failed } = handle()
  await fake.supervisor.ask('failedAttempt', '192.0.2.1')
  t.same(failed, ['192.0.2.1'])
})

t.test('its last metrics are kept when it cannot be asked any more', async t => {
  let count = 0
  const { worker } = handle({ onMetrics: () => [counter(++count)] })
  await worker.start(start)
  await worker.report()
  t.equal(worker.lastReport, undefined, 'before it serves nobody asks')
  worker.serving = true
  await worker.report()
  await worker.report()
  t.same(worker.lastReport, [counter(2)])
  const asked = worker.report()
  worker.kill()
  await asked
  await worker.report()
  t.same(worker.lastReport, [counter(2)])
})

async function passed(chunks: readonly (string | Buffer)[]): Promise<string[]> {
  const stream = new PassThrough()
  const lines: string[] = []
  passWholeLines(stream, text => lines.push(text))
  const ended = once(stream, 'end')
  for (const chunk of chunks) {
    stream.write(chunk)
    await new Promise(setImmediate)
  }
  stream.end()
  await ended
  return lines
}

t.test('complete lines are passed on, the rest waits', async t => {
  t.same(await passed(['a\nb\n']), ['a\nb\n'])
  t.same(await passed(['a\nb', 'c', 'd\ne\n']), ['a\n', 'bcd\ne\n'])
  t.same(await passed([]), [])
})

t.test('a character may arrive in two parts', async t => {
  const bytes = Buffer.from('ü\n')
  t.same(await passed([bytes.subarray(0, 1), bytes.subarray(1)]), ['ü\n'])
})

t.test('a last line without a line end gets one', async t => {
  t.same(await passed(['a\nb']), ['a\n', 'b\n'])
})

t.test('a mebibyte without a line end is passed on unchanged', async t => {
  const half = 'x'.repeat(512 * 1024)
  t.same(await passed([half, half]), [`${half}${half}\n`], 'a line of just that is kept')
  t.same(await passed([half, half, 'yz\n']), [`${half}${half}yz\n`])
  t.same(await passed([half, half, 'y', 'z\n']), [`${half}${half}y\n`, 'z\n'])
})
