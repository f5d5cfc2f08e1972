/**
 * Questions and answers between two processes. What is said within one turn of the event loop goes out as one message:
 * a message between processes costs far more than what is in it.
 */
import type { Call, Message } from './messages.js'

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
