/**
 * What was refused lately: requests that are refused alike are one group, with a count. There is room for so many
 * groups; the one that was met the longest ago makes room for a new one.
 */
import type { Config } from '../config/schema.js'
import type { ServerNameRefusal } from '../outcome.js'
import type { DecisionEvent, Subject } from '../pipeline/exchange-observer.js'
import { BoundedMap } from '../limits/bounded-map.js'
import { parseLoggedTarget } from '../advice/log-reader.js'
import { draftRemedy, type RefusedByPolicy } from '../advice/refusal-advice.js'
import { describeCut } from './access-log.js'
import type { DenialGroup, Denials } from './worker-status.js'

const MAX_GROUPS = 200
/** Of a method, which in a request that is refused for it may be as long as a head. */
const MAX_METHOD = 32
const MAX_DETAIL = 2000

type Decided = Pick<DecisionEvent, 'rule' | 'reason' | 'refusal'> & { decision: DenialGroup['decision'] }

interface Group extends Omit<DenialGroup, 'yaml'> {
  readonly address: string | undefined
  readonly configHash: string
  clientAddress: string
  count: number
  lastMs: number
  /** Drafted when somebody looks. */
  yaml?: string | undefined
  isDrafted?: boolean
}

export class RecentDenials {
  /** In the order in which they were met last. */
  readonly #groups = new BoundedMap<string, Group>(MAX_GROUPS)
  readonly #wallClock: () => number
  #dropped = 0

  /** @param wallClock milliseconds since the epoch */
  constructor(wallClock: () => number) {
    this.#wallClock = wallClock
  }

  decision(subject: Subject, event: DecisionEvent, configHash: string): void {
    const { decision } = event
    if (decision !== 'allow') this.#add(subject, { ...event, decision }, configHash)
  }

  /** A tunnel that is cut for its server name was allowed first. */
  cut(subject: Subject, serverName: ServerNameRefusal): void {
    const refusal = { message: describeCut(serverName), detail: undefined, address: undefined }
    this.#add(subject, { decision: 'deny', reason: serverName.fault, refusal }, '')
  }

  /** @param config what drafts are made for */
  report(config: Config): Denials {
    const listed = [...this.#groups.values()].reverse().map(group => {
      if (group.isDrafted !== true) {
        group.isDrafted = true
        group.yaml = draftRemedy(refusedOf(group), config)
      }
      const { configHash, isDrafted, address, ...rest } = group
      return { ...rest, yaml: group.yaml }
    })
    return { dropped: this.#dropped, listed }
  }

  #add(subject: Subject, event: Decided, configHash: string): void {
    const { client, user, kind, method, host, port, clientAddress } = subject
    const { decision, rule, reason = 'other', refusal } = event
    const now = this.#wallClock()
    const shown = method.slice(0, MAX_METHOD)
    const address = refusal?.address
    const key = JSON.stringify([client, user, kind, shown, host, port, decision, reason, rule, address])
    const known = this.#groups.get(key)
    this.#groups.delete(key)
    if (known?.configHash === configHash) {
      known.count += 1
      known.lastMs = now
      known.clientAddress = clientAddress
      this.#groups.set(key, known)
      return
    }
    if (this.#groups.isFull) this.#dropped += 1
    this.#groups.set(key, {
      client,
      user: user === undefined ? undefined : ownText(user),
      clientAddress,
      kind,
      method: ownText(shown),
      host: host === undefined ? undefined : ownText(host),
      port,
      decision,
      reason,
      rule,
      detail: (refusal?.detail ?? refusal?.message)?.slice(0, MAX_DETAIL),
      address,
      configHash,
      count: (known?.count ?? 0) + 1,
      firstMs: known?.firstMs ?? now,
      lastMs: now,
    })
  }
}

function refusedOf({ client, kind, method, host, port, reason, rule, address }: Group): RefusedByPolicy {
  const isAimed = kind === 'connect' || kind === 'forward'
  const target = isAimed ? parseLoggedTarget(kind, { method, host, port }) : undefined
  return { reason, rule, target, address, client }
}

/** A copy that stands by itself: text cut out of a request holds on to all of the request for as long as it is kept. */
function ownText(text: string): string {
  return Buffer.from(text).toString()
}
