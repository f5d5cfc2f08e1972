/** Counts the threads that start and end while a test runs. */
import type { Worker } from 'node:worker_threads'
import type { Test } from 'tap'

export function countThreads(t: Test): { readonly started: number; readonly ended: number } {
  const threads = { started: 0, ended: 0 }
  const count = (worker: Worker): void => {
    threads.started++
    worker.once('exit', () => threads.ended++)
  }
  process.on('worker', count)
  t.teardown(() => process.off('worker', count))
  return threads
}
