/**
 * Recent refusals: requests that were refused for the same reason, of the same client and target, are one group with a count.
 */
import type { Config } from '../config/schema.js'
import type { ServerNameRefusal } from '../outcome.js'
import type { DecisionEvent, Subject } from '../pipeline/exchange-observer.js'
import { parseLoggedTarget } from '../advice/log-reader.js'
import { draftRemedy, type RefusedByPolicy } from '../advice/remedy.js'
import { describeCut } from './access-log.js'
import { ownText, RecentGroups } from './recent-groups.js'
import type { DenialGroup, Denials } from './worker-status.js'

/** The most characters of a method: a refused method may be as long as a whole head. */
const MAX_METHOD = 32
const MAX_DETAIL = 2000

type Decided = Pick<DecisionEvent, 'rule' | 'reason' | 'refusal'> & { decision: DenialGroup['decision'] }

interface Described extends Omit<DenialGroup, 'remedy' | 'clientAddress' | 'count' | 'firstMs' | 'lastMs'> {
  readonly address: string | undefined
  readonly configHash: string
  clientAddress: string
  /** Drafted when the status is requested, for the configuration in force at that time. */
  draft: { readonly config: Config; readonly remedy: DenialGroup['remedy'] } | undefined
}

export class RecentDenials {
  readonly #groups: RecentGroups<Described>

  /** @param wallClock milliseconds since the epoch */
  constructor(wallClock: () => number) {
    this.#groups = new RecentGroups(wallClock)
  }

  decision(subject: Subject, event: DecisionEvent, configHash: string): void {
    const { decision } = event
    if (decision !== 'allow') this.#add(subject, { ...event, decision }, configHash)
  }

  /** A tunnel was cut for its server name, after it had been allowed. */
  cut(subject: Subject, serverName: ServerNameRefusal): void {
    const refusal = { message: describeCut(serverName), detail: undefined, address: undefined }
    this.#add(subject, { decision: 'deny', reason: serverName.fault, refusal }, '')
  }

  /** @param config the configuration that the drafts are for */
  report(config: Config): Denials {
    const listed = this.#groups.listed.map(group => {
      if (group.draft?.config !== config)
        group.draft = { config, remedy: draftRemedy(refusedOf(group), config) }
      const { configHash, draft, address, ...rest } = group
      return { ...rest, remedy: draft.remedy }
    })
    return { dropped: this.#groups.dropped, listed }
  }

  #add(subject: Subject, event: Decided, configHash: string): void {
    const { client, user, kind, method, host, port, clientAddress } = subject
    const { decision, rule, reason = 'other', refusal } = event
    const shown = method.slice(0, MAX_METHOD)
    const address = refusal?.address
    this.#groups.add([client, user, kind, shown, host, port, decision, reason, rule, address], known => {
      if (known?.configHash === configHash) {
        known.clientAddress = clientAddress
        return known
      }
      return {
        client,
        user: ownText(user),
        clientAddress,
        kind,
        method: ownText(shown),
        host: ownText(host),
        port,
        decision,
        reason,
        rule,
        detail: (refusal?.detail ?? refusal?.message)?.slice(0, MAX_DETAIL),
        address,
        configHash,
        draft: undefined,
      }
    })
  }
}

function refusedOf({ client, kind, method, host, port, reason, rule, address }: Described): RefusedByPolicy {
  const isAimed = kind === 'connect' || kind === 'forward'
  const target = isAimed ? parseLoggedTarget(kind, { method, host, port }) : undefined
  return { reason, rule, target, address, client }
}
