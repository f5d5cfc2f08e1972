/** A supervisor whose workers are not processes, and whose time the test controls. */
import { createLogger, type Loaded, parseConfig } from '../../src/index.js'
import { NOTHING_PASSED, type PassedSockets } from '../../src/listener/bind.js'
import { startSupervisor } from '../../src/supervisor/supervisor.js'
import { FakeWorker, type Script } from './fake-worker.js'
import { until as waitUntil } from '../kit/until.js'

/** A pause that lasts until the test ends it. */
export interface FakePause {
  readonly ms: number
  readonly end: () => void
}

export const load = (rest = ''): Loaded =>
  parseConfig(`version: 1\nworkers: 2\nlisten: { admin: false }\nshutdown: { drain: 1s }\n${rest}`)

/** @param scripts of the workers, in the order in which they are forked; further ones use the last */
export function fleet(...scripts: Script[]) {
  return fleetThat({ reusePort: false }, ...scripts)
}

export function fleetThat({ reusePort }: { readonly reusePort: boolean }, ...scripts: Script[]) {
  const workers: FakeWorker[] = []
  const events: { event: string; [key: string]: unknown }[] = []
  const passed = { log: '', error: '' }
  /** The pauses in milliseconds, and how to end each. */
  const pauses: FakePause[] = []
  /** The pauses between heartbeats, and those in which an answer is waited for. */
  const beats: FakePause[] = []
  const steps: FakePause[] = []
  const interrupt = new AbortController()
  let nowMs = 0
  const until = (holds: () => boolean) => waitUntil(`${holds}`, holds, { seen: () => events })
  const start = (loaded = load(), count = 2, passedSockets: PassedSockets = NOTHING_PASSED) =>
    startSupervisor(loaded, {
      logger: createLogger('info', { write: line => void events.push(JSON.parse(line)) }),
      startId: 'start',
      workers: count,
      reusePort,
      passedSockets,
      fork: () => {
        const worker = new FakeWorker(
          1000 + workers.length,
          scripts[Math.min(workers.length, scripts.length - 1)],
        )
        workers.push(worker)
        return worker.process
      },
      interrupt: interrupt.signal,
      passLog: lines => {
        passed.log += lines
      },
      passError: lines => {
        passed.error += lines
      },
      now: () => nowMs,
      wallClock: () => nowMs,
      pause: (ms, signal) =>
        new Promise(resolve => {
          const list = ms === 4000 ? beats : ms === 1000 ? steps : pauses
          list.push({ ms, end: resolve })
          if (signal.aborted) resolve()
          else signal.addEventListener('abort', () => resolve())
        }),
    })
  return {
    start,
    workers,
    events,
    passed,
    interrupt: () => interrupt.abort(),
    pauses,
    beats,
    steps,
    until,
    advance: (ms: number) => {
      nowMs += ms
    },
  }
}
