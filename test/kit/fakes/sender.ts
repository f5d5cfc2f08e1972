/** A sender that sends nothing: the test sees what was passed to it, and reports the response. */
import type { Permit } from '../../../src/policy/permit.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from '../../../src/upstream/sender.js'

/** One request to send. */
export interface Attempt {
  readonly request: UpstreamRequest
  readonly permit: Permit
  readonly events: UpstreamEvents
  readonly fresh: boolean
  /** How often it was cancelled. */
  cancelled: number
}

export class FakeSender implements Sender {
  readonly attempts: Attempt[] = []
  closed = 0
  /** Called within `send`, before it returns. */
  whileSending = (_events: UpstreamEvents): void => {}

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const attempt: Attempt = { request, permit, events, fresh, cancelled: 0 }
    this.attempts.push(attempt)
    this.whileSending(events)
    return () => {
      attempt.cancelled += 1
    }
  }

  retire(): void {}

  close(): void {
    this.closed += 1
  }
}
