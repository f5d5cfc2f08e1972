/** Recent failures: requests to the same target that failed for the same reason are one group with a count. */
import type { ProxyError } from '../errors.js'
import { sentence } from '../pipeline/error-page.js'
import type { DecisionEvent, Subject } from '../pipeline/exchange-observer.js'
import { ownText, RecentGroups } from './recent-groups.js'
import type { FailureGroup, Failures } from './worker-status.js'

const MAX_DETAIL = 2000

type Described = Omit<FailureGroup, 'count' | 'firstMs' | 'lastMs'>

export class RecentFailures {
  readonly #groups: RecentGroups<Described>

  /** @param wallClock milliseconds since the epoch */
  constructor(wallClock: () => number) {
    this.#groups = new RecentGroups(wallClock)
  }

  /** @param parent the URL of the last parent proxy that was tried, if any */
  add(subject: Subject, error: ProxyError, { rule }: DecisionEvent, parent: string | undefined): void {
    const { client, user, clientAddress, kind, host, port } = subject
    const { reason } = error
    this.#groups.add([kind, host, port, rule, reason, parent], known => ({
      kind,
      host: known === undefined ? ownText(host) : known.host,
      port,
      rule,
      reason,
      parent,
      client,
      user: ownText(user),
      clientAddress,
      detail: ownText(sentence(error).slice(0, MAX_DETAIL)),
    }))
  }

  report(): Failures {
    return { dropped: this.#groups.dropped, listed: this.#groups.listed }
  }
}
