/** What is told of a request that never became an exchange, because it is malformed. */
import type { ProxyError } from '../errors.js'
import type { ExchangeObserver } from '../observe/exchange-observer.js'
import { Outcome } from '../outcome.js'

export interface InvalidRequest {
  readonly id: string
  /** The name of the client entry that holds the address. */
  readonly client: string | undefined
  readonly clientAddress: string
  /** Both as far as they were read. */
  readonly method: string
  readonly target: string
}

/** Tells of it as of one that was denied and answered at once. */
export function tellInvalidRequest(
  observer: ExchangeObserver,
  configHash: string,
  { target, ...known }: InvalidRequest,
  error: ProxyError,
): void {
  const subject = { ...known, kind: 'invalid', path: withoutUserinfo(target) } as const
  observer.decision(subject, { decision: 'deny', reason: error.reason, refusal: error }, configHash)
  observer.close(subject, Outcome.refused('refusal', error), 0, 'deny')
}

/** A refused target may be one because a password stands in it; which is no reason to write that into a log. */
function withoutUserinfo(target: string): string {
  if (!target.startsWith('/')) return target.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/i, '$1')
  return target.replace(/\/\/[^/?#]*@/g, '//')
}
