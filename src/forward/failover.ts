/**
 * One request and several next hops that could take it, each of which the configuration names.
 *
 * A request goes to another one when none of it has left because no connection was established, and also, if its method
 * is idempotent and none of its content was read, when the connection died without an answer (RFC 9110 §9.2.2).
 * Anything else ends with the one that was tried.
 */
import { type ProxyError, toProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import { methodProperties } from '../http/method.js'
import { type HandlerName, Outcome } from '../outcome.js'

/** A next hop: the key that names it, and its URL for messages and logs. */
export interface NextHop {
  readonly source: string
  readonly url: string
}

export interface NextHops<Hop> {
  /** How many there are. */
  readonly size: number
  /** The next hop for a request; undefined when it has been to all. */
  take(tried: ReadonlySet<Hop>): Hop | undefined
  /** A connection to it was established. */
  reached(hop: Hop): void
  /** None could be established. */
  unreached(hop: Hop, error: ProxyError): void
}

/**
 * @param send sends the request to one of them, and knows whether there are others
 * @returns the outcome with the last one that a connection was established to, or else with the last one tried
 * @throws whatever the client going away throws
 */
export async function relayToOneOf<Hop extends NextHop>(
  handler: HandlerName,
  exchange: Exchange,
  hops: NextHops<Hop>,
  send: (hop: Hop, hasOthers: boolean) => Promise<Outcome>,
): Promise<Outcome> {
  const tried = new Set<Hop>()
  let last: Outcome | undefined
  /** What is returned. */
  let result: Outcome | undefined
  for (;;) {
    const hop = last === undefined || mayMove(exchange, last) ? hops.take(tried) : undefined
    if (hop === undefined) break
    tried.add(hop)
    try {
      last = await send(hop, tried.size < hops.size)
    } catch (error) {
      if (exchange.signal.aborted) throw error
      last = Outcome.of(handler, toProxyError(error))
    }
    const { error, address } = last
    if (address !== undefined) hops.reached(hop)
    else if (error?.side === 'upstream') hops.unreached(hop, error)
    if (error !== undefined) last = { ...last, error: explained(error, hop) }
    if (error === undefined || address !== undefined || result?.address === undefined) result = last
  }
  if (result === undefined) throw new TypeError('no next hop at all')
  return result
}

/** Whether a request that failed may be sent to another next hop. */
function mayMove({ facts, content, responded, signal }: Exchange, { error, address }: Outcome): boolean {
  if (error?.side !== 'upstream' || responded || signal.aborted || content.bytes > 0) return false
  if (address === undefined) return true
  return error.type === 'connection_terminated' && methodProperties(facts.method).idempotent
}

/** The same error, with the key that leads there. */
export function explained(error: ProxyError, { source, url }: NextHop): ProxyError {
  return error.with({ detail: `${source} leads to ${url}: ${error.detail ?? `${error.message}.`}` })
}
