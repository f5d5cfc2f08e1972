/** A sender that sends nothing: the test sees what it was given, and plays what comes back. */
import type { Permit } from '../../../src/policy/permit.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from '../../../src/upstream/sender.js'

/** One request to send. */
export interface Attempt {
  /** The name of the sender. */
  readonly sender: string
  readonly request: UpstreamRequest
  readonly permit: Permit
  readonly events: UpstreamEvents
  readonly fresh: boolean
  /** How often it was cancelled. */
  cancelled: number
}

export class FakeSender implements Sender {
  readonly attempts: Attempt[]
  /** What `avoids` says. */
  avoided = false
  closed = 0
  /** Called within `send`, before it returns. */
  whileSending = (_events: UpstreamEvents): void => {}
  readonly #name: string

  /** @param attempts where they go; several senders may share it */
  constructor(name = 'sender', attempts: Attempt[] = []) {
    this.#name = name
    this.attempts = attempts
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const attempt: Attempt = { sender: this.#name, request, permit, events, fresh, cancelled: 0 }
    this.attempts.push(attempt)
    this.whileSending(events)
    return () => {
      attempt.cancelled += 1
    }
  }

  avoids(): boolean {
    return this.avoided
  }

  retire(): void {}

  close(): void {
    this.closed += 1
  }
}
