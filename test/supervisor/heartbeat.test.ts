import t from 'tap'
import { keepBeating } from '../../src/supervisor/heartbeat.js'
import type { Pause } from '../../src/supervisor/pause.js'

/** A worker whose time is the test's: each pause is told, and lasts until it is ended. */
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
  /** Lets the pause that is waited for come to its end, which has to be so long. */
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

t.test('one that is slow is known not to answer, and lives', async t => {
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

t.test('one that does not answer is killed after 15 seconds, and not before', async t => {
  const { worker, kills, over, pass } = beating()
  await pass(4000)
  for (let second = 1; second < 15; second++) await pass(1000)
  t.same(kills, [])
  await pass(1000)
  await over
  t.same(kills, ['it did not answer for 15 s'])
  t.equal(worker.answering, false)
})

t.test('one that ends while it is asked is left alone', async t => {
  const { gone, answers, kills, over, pass } = beating()
  await pass(4000)
  await pass(1000)
  gone.abort()
  answers[0]?.reject(new Error('the other process is gone'))
  await over
  t.same(kills, [])
})
