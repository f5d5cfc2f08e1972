/** Runs the program with workers in a separate process group, reads its log, and kills its workers one by one. */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'
import { halt, killGroup, processesOf } from '../kit/processes/process-group.js'
import { clientPorts, isListener } from './held-sockets.js'
import { type LogLine, PROGRAM } from './program.js'
import { Changes, until } from '../kit/until.js'

export interface Worker {
  readonly number: number
  readonly pid: number
}

export interface Kill extends Worker {
  /** When it was killed, and when its end was logged; milliseconds, monotonic. */
  readonly stoppedAt: number
  endedAt: number
  /** The ports of the clients connected to it, and of those connected to the others. */
  readonly clients: ReadonlySet<number>
  readonly othersClients: ReadonlySet<number>
}

/** A response or an echo that a client did not get. */
export interface Failure {
  readonly what: string
  /** The client's port; undefined if it was not connected. */
  readonly clientPort: number | undefined
  readonly connectedAt: number
  readonly failedAt: number
  /** The path of the request; undefined for a tunnel. */
  readonly path: string | undefined
}

/** Events that occur in large numbers, and are checked as they arrive. */
const EXCHANGES = new Set(['decision', 'close'])

/** Close reasons that the load causes: complete exchanges, and clients that were gone when the origin responded. */
const ENDS = new Set(['complete', 'client_gone'])

export class SoakFleet {
  readonly exited: Promise<number | null>
  readonly kills: Kill[] = []
  /** Lines that are not JSON. */
  readonly broken: string[] = []
  /** All events except those of exchanges. */
  readonly events: LogLine[] = []
  /** Exchanges that ended for another reason than the load causes. */
  readonly odd: LogLine[] = []
  /** The configuration of each worker's last decision. */
  readonly decidedBy = new Map<number, string>()
  /** The worker that has decided a request, by path. */
  readonly #deciders = new Map<string, number>()
  readonly #child: ChildProcessByStdio<null, Readable, Readable>
  readonly #group: number
  readonly #changes = new Changes()
  #ended = false
  #stderr = ''

  constructor(t: Test, configFile: string) {
    this.#child = spawn(process.execPath, [PROGRAM, '--config', configFile], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'] },
      detached: true,
    })
    // Without a process there is no group: 0 would be the group of the test itself.
    this.#group = this.#child.pid ?? -1
    t.teardown(() => killGroup(this.#group))
    this.exited = once(this.#child, 'close').then(([code]) => {
      this.#ended = true
      this.#changes.notify()
      return code as number | null
    })
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    createInterface({ input: this.#child.stdout }).on('line', line => this.#read(line))
  }

  get stderr(): string {
    return this.#stderr
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** The `count`th event with one of these names, past or future. */
  event(names: readonly string[], count = 1): Promise<LogLine> {
    const named = () => this.events.filter(({ event }) => names.includes(String(event)))
    return this.#until(`${names} ${count}`, () => named()[count - 1])
  }

  /** The workers that serve clients, the oldest first. */
  get serving(): Worker[] {
    const gone = new Set([...this.#named('worker_exited'), ...this.kills].map(({ number }) => number))
    return this.#named('worker_started').filter(({ number }) => !gone.has(number))
  }

  async untilServing(count: number): Promise<void> {
    await this.#until(`${count} to serve`, () => this.serving.length >= count)
  }

  /** Records the connections of a worker and kills it; resolves when its end is logged. */
  async kill({ number, pid }: Worker, port: number): Promise<void> {
    const others = this.serving.flatMap(worker => (worker.pid === pid ? [] : [worker.pid]))
    const stoppedAt = performance.now()
    await halt(pid)
    const ports = clientPorts([pid, ...others], port)
    process.kill(pid, 'SIGKILL')
    const kill: Kill = {
      number,
      pid,
      stoppedAt,
      endedAt: Number.POSITIVE_INFINITY,
      clients: ports.get(pid) ?? new Set(),
      othersClients: new Set(others.flatMap(other => [...(ports.get(other) ?? [])])),
    }
    this.kills.push(kill)
    await this.#until('its end to be told', () => kill.endedAt < Number.POSITIVE_INFINITY)
  }

  /**
   * Why a failure is excused by the end of a killed worker: that worker had the connection, or the connection was on its
   * way to a worker. Undefined if no worker was killed while the connection was open.
   */
  excuse({ clientPort, connectedAt, failedAt, path }: Failure): 'held' | 'on its way' | undefined {
    if (clientPort === undefined) return undefined
    const during = this.kills.filter(kill => kill.stoppedAt <= failedAt && connectedAt <= kill.endedAt)
    if (during.some(({ clients }) => clients.has(clientPort))) return 'held'
    const decider = path === undefined ? undefined : this.#deciders.get(path)
    const unheld = during.some(
      ({ number, othersClients }) =>
        !othersClients.has(clientPort) && (decider === undefined || decider === number),
    )
    return unheld ? 'on its way' : undefined
  }

  /** Whether the supervisor accepts connections and passes them to the workers. */
  isAcceptedFor(port: number): boolean {
    return isListener(this.#group, port)
  }

  /** Processes of the group that are still running. */
  processes(): number[] {
    return processesOf(this.#group)
  }

  /** Waits until the events fulfil a condition. */
  #until<T>(what: string, look: () => T | false | undefined): Promise<T> {
    const lookOrFail = () => {
      const found = look()
      if ((found === undefined || found === false) && this.#ended)
        throw new Error(`it has ended without ${what}: ${this.#stderr}`)
      return found
    }
    return until(what, lookOrFail, { changes: this.#changes, seen: () => this.events.slice(-10) })
  }

  #named(event: string): Worker[] {
    return this.events.flatMap(line =>
      line['event'] === event ? [{ number: Number(line['worker']), pid: Number(line['worker_pid']) }] : [],
    )
  }

  #read(text: string): void {
    let line: LogLine
    try {
      line = JSON.parse(text) as LogLine
    } catch {
      this.broken.push(text)
      return
    }
    if (EXCHANGES.has(String(line['event']))) {
      this.#exchange(line)
      return
    }
    this.events.push(line)
    if (line['event'] === 'worker_exited') {
      for (const kill of this.kills) if (kill.number === line['worker']) kill.endedAt = performance.now()
    }
    this.#changes.notify()
  }

  #exchange(line: LogLine): void {
    const number = Number.parseInt(String(line['id']).split('-')[1] ?? '', 36)
    if (line['event'] === 'close') {
      const reason = String(line['close_reason'])
      const isOfKilled = reason === 'worker_exited' && this.kills.some(kill => kill.number === number)
      if (!ENDS.has(reason) && !isOfKilled) this.odd.push(line)
      return
    }
    this.decidedBy.set(number, String(line['config_hash']))
    if (typeof line['path'] === 'string') this.#deciders.set(line['path'], number)
  }
}
