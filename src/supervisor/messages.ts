/**
 * What the supervisor and its workers say to each other, as questions and answers. All of it is plain data, which the
 * structured clone of the channel between processes takes as it is. What is said within one turn of the event loop goes out
 * as one message: a message between processes costs far more than what is in it.
 */
import type { RecentFailures } from '../clients/failed-attempts.js'
import type { LoadedConfig } from '../run/runtime.js'
import type { PassedSockets } from '../listener/bind.js'
import type { MetricsReport } from '../observe/exposition.js'
import type { BuildInfo } from '../observe/metrics.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import type { Listeners } from '../pipeline/create-policy.js'
import type { Reloaded, WorkerPlace } from '../run/proxy.js'
import type { Purge } from '../upstream/cache/store.js'

/** What a worker begins with. */
export interface WorkerStart {
  /** The configuration in force, whatever its file says by now. */
  readonly loaded: LoadedConfig
  /** The same in all workers. */
  readonly startId: string
  readonly build: BuildInfo | undefined
  /** Wrong credentials that other workers were sent, as far as they count still. */
  readonly failures: RecentFailures
  /** Open in the supervisor, which binds for its workers. */
  readonly passedSockets: PassedSockets | undefined
  readonly place: WorkerPlace
}

/** What is asked of the other side, by its name: what goes with it, and what comes back. */
export interface Call {
  readonly content: unknown
  readonly answer: unknown
}

/** What the supervisor asks of a worker. */
export type WorkerCalls = {
  /** First of all, and once; answered with what is listened on. */
  start: { content: WorkerStart; answer: Listeners }
  reload: { content: LoadedConfig; answer: Reloaded }
  /** What it has counted, its process included. */
  metrics: { content: undefined; answer: MetricsReport }
  /** Answered at once by a worker that does anything at all. */
  beat: { content: undefined; answer: undefined }
  /** How it does. */
  status: { content: undefined; answer: WorkerStatus }
  /** Ends the tunnel of an exchange; answered with whether there was one. */
  closeTunnel: { content: string; answer: boolean }
  /** Forgets what is stored; answered with how many responses, or with null while the cache is off. */
  purgeCache: { content: Purge; answer: number | null }
  /** Answered when everything is closed; the worker then ends. */
  drain: { content: undefined; answer: undefined }
  /** Another worker was sent wrong credentials from this source. */
  failedAttempt: { content: string; answer: undefined }
}

/** What a worker asks of the supervisor. */
export type SupervisorCalls = {
  /** It listens to what is said; before that nothing is kept for it. */
  ready: { content: undefined; answer: undefined }
  /** Wrong credentials came from this source; the other workers are to count them. */
  failedAttempt: { content: string; answer: undefined }
  // What limits are counted in, each as Ledger has it.
  acquire: { content: { readonly key: string; readonly limit: number }; answer: boolean }
  release: { content: string; answer: undefined }
  take: { content: { readonly key: string; readonly rate: number; readonly burst: number }; answer: number }
  spend: { content: { readonly key: string; readonly bytes: number; readonly limit: number }; answer: number }
}

/** One thing said; `id` is the asking side's own, and joins question and answer; 0 asks for none. */
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

/** What this side does when it is asked; what it throws is the asking side's error. */
export type Handlers<Of extends Calls> = {
  readonly [Each in keyof Of]: (
    content: Of[Each]['content'],
  ) => Of[Each]['answer'] | Promise<Of[Each]['answer']>
}

/** In place of the id of a question. */
const UNANSWERED = 0

interface Pending {
  resolve(value: unknown): void
  reject(error: Error): void
}

/** `Asked` is what the other side can be asked, `Answered` what this side can. */
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

  /** Rejects with what the other side threw, or when it is gone before it has answered. */
  ask<Each extends Name<Asked>>(name: Each, content: Asked[Each]['content']): Promise<Asked[Each]['answer']> {
    if (this.#over) return Promise.reject(new Error('the other process is gone'))
    const id = ++this.#asked
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      this.#say({ type: 'call', id, name, content })
    })
  }

  /** Says what needs no answer, and has none to give. */
  tell<Each extends Name<Asked>>(name: Each, content: Asked[Each]['content']): void {
    this.#say({ type: 'call', id: UNANSWERED, name, content })
  }

  /** To be called with what the port brings. */
  receive(messages: readonly Message[]): void {
    for (const message of messages) {
      if (message.type === 'call') void this.#answer(message.id, message.name, message.content)
      else this.#answered(message)
    }
  }

  /** The other side is gone: nothing that is open will be answered. */
  end(): void {
    this.#over = true
    for (const { reject } of this.#pending.values()) reject(new Error('the other process is gone'))
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
      if (handler === undefined) throw new TypeError(`nothing is known of ${asked}`)
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
