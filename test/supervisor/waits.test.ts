import t from 'tap'
import { Backoff, isSettledWithin, keepBeating, type Pause } from '../../src/supervisor/waits.js'

/** Pauses that end at once, or never, and their number. */
function pauses(ends: boolean) {
  const signals: AbortSignal[] = []
  const pause: Pause = async (ms, signal) => {
    t.equal(ms, 1000)
    signals.push(signal)
    if (!ends) await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
  }
  return { signals, pause }
}

t.test('an answer in time is one, and so is a failure; nothing is waited for after it', async t => {
  for (const asked of [Promise.resolve(1), Promise.reject(new Error('gone'))]) {
    const { signals, pause } = pauses(false)
    t.equal(await isSettledWithin(asked, 2, pause), true)
    t.same(
      signals.map(({ aborted }) => aborted),
      [true],
    )
  }
})

t.test('the seconds are waited for one by one', async t => {
  const { signals, pause } = pauses(true)
  t.equal(await isSettledWithin(new Promise(() => {}), 3, pause), false)
  t.equal(signals.length, 3)
})

/** A worker whose time the test controls: each pause is recorded, and lasts until it is ended. */
function beating() {
  const gone = new AbortController()
  const pauses: { ms: number; end: () => void }[] = []
  const answers: { resolve: () => void; reject: (error: Error) => void }[] = []
  const kills: string[] = []
  const worker = {
    answering: true,
    beat: () => new Promise<void>((resolve, reject) => void answers.push({ resolve, reject })),
    kill: (fault: string) => {
      kills.push(fault)
      gone.abort()
    },
  }
  const pause: Pause = (ms, signal) =>
    new Promise<void>(resolve => {
      pauses.push({ ms, end: resolve })
      if (signal.aborted) resolve()
      else signal.addEventListener('abort', () => resolve())
    })
  const over = keepBeating(worker, pause, gone.signal)
  /** Ends the current pause, which must have this length. */
  const pass = async (ms: number): Promise<void> => {
    const last = pauses.at(-1)
    t.equal(last?.ms, ms)
    last?.end()
    await new Promise(resolve => setImmediate(resolve))
  }
  const answer = async (): Promise<void> => {
    answers.at(-1)?.resolve()
    await new Promise(resolve => setImmediate(resolve))
  }
  return { worker, gone, answers, kills, over, pass, answer }
}

t.test('a worker that answers is asked every few seconds until it has ended', async t => {
  const { worker, gone, answers, kills, over, pass, answer } = beating()
  for (let beats = 1; beats <= 3; beats++) {
    await pass(4000)
    t.equal(answers.length, beats)
    await answer()
    t.equal(worker.answering, true)
  }
  gone.abort()
  await over
  t.same(kills, [])
  t.equal(answers.length, 3)
})

t.test('a slow worker counts as unresponsive, and is not killed', async t => {
  const { worker, gone, kills, over, pass, answer } = beating()
  await pass(4000)
  await pass(1000)
  t.equal(worker.answering, true)
  await pass(1000)
  t.equal(worker.answering, false)
  for (let second = 3; second < 15; second++) await pass(1000)
  t.same(kills, [])
  await answer()
  t.equal(worker.answering, true)
  await pass(4000)
  gone.abort()
  await answer()
  await over
  t.same(kills, [])
})

t.test('a worker that does not answer is killed after 15 seconds, and not before', async t => {
  const { worker, kills, over, pass } = beating()
  await pass(4000)
  for (let second = 1; second < 15; second++) await pass(1000)
  t.same(kills, [])
  await pass(1000)
  await over
  t.same(kills, ['it did not answer for 15 s'])
  t.equal(worker.answering, false)
})

t.test('a worker that ends while it is asked is not killed', async t => {
  const { gone, answers, kills, over, pass } = beating()
  await pass(4000)
  await pass(1000)
  gone.abort()
  answers[0]?.reject(new Error('the other process has ended'))
  await over
  t.same(kills, [])
})

t.test('the delay of the next worker doubles from 100 ms to 5 s', async t => {
  const backoff = new Backoff()
  const delays = Array.from({ length: 8 }, () => backoff.delayMs(9999))
  t.same(delays, [100, 200, 400, 800, 1600, 3200, 5000, 5000])
})

t.test('after a worker that ran for ten seconds it begins again', async t => {
  const backoff = new Backoff()
  backoff.delayMs(0)
  backoff.delayMs(0)
  t.equal(backoff.delayMs(10_000), 100)
  t.equal(backoff.delayMs(0), 200)
})
