/**
 * The messages between the supervisor and its workers: calls and answers. They are plain data, which the structured
 * clone of the channel between processes preserves. All messages of one turn of the event loop are sent as one batch,
 * because sending costs far more than the content.
 */
import type { RecentFailures } from '../clients/failed-attempts.js'
import type { LoadedConfig } from '../run/runtime.js'
import type { PassedSockets } from '../listener/bind.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { BuildInfo } from '../observe/metrics.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { Reloaded, WorkerContext } from '../run/proxy.js'
import type { Purge } from '../upstream/cache/store.js'

/** The data with which a worker starts. */
export interface WorkerStart {
  /** The current configuration, even if its file has changed meanwhile. */
  readonly loaded: LoadedConfig
  /** The same for all workers. */
  readonly startId: string
  readonly build: BuildInfo | undefined
  /** Recent failed attempts at other workers, which still count. */
  readonly failures: RecentFailures
  /** Sockets of the supervisor, which binds for its workers. */
  readonly passedSockets: PassedSockets | undefined
  readonly context: WorkerContext
}

/** A call of the other side: its argument and its result. */
export interface Call {
  readonly content: unknown
  readonly answer: unknown
}

/** The calls from the supervisor to a worker. */
export type WorkerCalls = {
  /** The first call, made once; the answer is what the worker listens on. */
  start: { content: WorkerStart; answer: Listeners }
  reload: { content: LoadedConfig; answer: Reloaded }
  /** The metrics of the worker, including those of its process. */
  metrics: { content: undefined; answer: MetricsReport }
  /** Answered at once unless the worker hangs. */
  beat: { content: undefined; answer: undefined }
  /** The status of the worker. */
  status: { content: undefined; answer: WorkerStatus }
  /** Closes the tunnel of an exchange; the answer is whether there was one. */
  closeTunnel: { content: string; answer: boolean }
  /** Removes cached responses; the answer is how many, or null while the cache is off. */
  purgeCache: { content: Purge; answer: number | null }
  /** Answered when everything is closed; the worker then ends. */
  drain: { content: undefined; answer: undefined }
  /** Another worker received wrong credentials from this source. */
  failedAttempt: { content: string; answer: undefined }
}

/** The calls from a worker to the supervisor. */
export type SupervisorCalls = {
  /** The worker is ready for calls; earlier ones would be lost. */
  ready: { content: undefined; answer: undefined }
  /** This worker received wrong credentials from this source; the other workers must count them. */
  failedAttempt: { content: string; answer: undefined }
  // The methods of Ledger.
  acquire: { content: { readonly key: string; readonly limit: number }; answer: boolean }
  release: { content: string; answer: undefined }
  take: { content: { readonly key: string; readonly rate: number; readonly burst: number }; answer: number }
  spend: { content: { readonly key: string; readonly bytes: number; readonly limit: number }; answer: number }
}

/** A message; `id` is chosen by the caller and identifies the answer; 0 means that no answer is expected. */
export type Message =
  | { readonly type: 'call'; readonly id: number; readonly name: string; readonly content: unknown }
  | { readonly type: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly type: 'failure'; readonly id: number; readonly name: string; readonly message: string }

/** A channel to the other process. */
export interface Port {
  send(messages: readonly Message[]): void
}

type Calls = Record<string, Call>
type Name<Of extends Calls> = Extract<keyof Of, string>

/** The implementation of the calls on this side; an error that is thrown rejects the call on the other side. */
export type Handlers<Of extends Calls> = {
  readonly [Each in keyof Of]: (
    content: Of[Each]['content'],
  ) => Of[Each]['answer'] | Promise<Of[Each]['answer']>
}

/** The id of a call that is not answered. */
const UNANSWERED = 0

interface Pending {
  resolve(value: unknown): void
  reject(error: Error): void
}

/** `Asked` are the calls to the other side, `Answered` those from it. */
export class Conversation<Asked extends Calls, Answered extends Calls> {
  readonly #port: Port
  readonly #handlers: Handlers<Answered>
  readonly #pending = new Map<number, Pending>()
  #outbox: Message[] = []
  #asked = 0
  #over = false

  constructor(port: Port, handlers: Handlers<Answered>) {
    this.#port = port
    this.#handlers = handlers
  }

  /** Rejects with the error of the other side, or when its process ends before it has answered. */
  ask<Each extends Name<Asked>>(name: Each, content: Asked[Each]['content']): Promise<Asked[Each]['answer']> {
    if (this.#over) return Promise.reject(new Error('the other process has ended'))
    const id = ++this.#asked
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      this.#say({ type: 'call', id, name, content })
    })
  }

  /** Sends a call without an answer. */
  tell<Each extends Name<Asked>>(name: Each, content: Asked[Each]['content']): void {
    this.#say({ type: 'call', id: UNANSWERED, name, content })
  }

  /** Must be called with the messages from the port. */
  receive(messages: readonly Message[]): void {
    for (const message of messages) {
      if (message.type === 'call') void this.#answer(message.id, message.name, message.content)
      else this.#answered(message)
    }
  }

  /** The other process has ended: all pending calls fail. */
  end(): void {
    this.#over = true
    for (const { reject } of this.#pending.values()) reject(new Error('the other process has ended'))
    this.#pending.clear()
  }

  #answered(message: Exclude<Message, { type: 'call' }>): void {
    const pending = this.#pending.get(message.id)
    this.#pending.delete(message.id)
    if (message.type === 'answer') pending?.resolve(message.value)
    else pending?.reject(Object.assign(new Error(message.message), { name: message.name }))
  }

  async #answer(id: number, asked: string, content: unknown): Promise<void> {
    try {
      const handler = this.#handlers[asked]
      if (handler === undefined) throw new TypeError(`unknown call ${asked}`)
      const value = await handler(content)
      if (id !== UNANSWERED) this.#say({ type: 'answer', id, value })
    } catch (error) {
      if (id === UNANSWERED) return
      const { name, message } = error instanceof Error ? error : new Error(String(error))
      this.#say({ type: 'failure', id, name, message })
    }
  }

  #say(message: Message): void {
    if (this.#over) return
    this.#outbox.push(message)
    if (this.#outbox.length === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    const messages = this.#outbox
    this.#outbox = []
    if (!this.#over) this.#port.send(messages)
  }
}
