/**
 * Failover: one request, and several next hops of the configuration that could take it.
 *
 * A request is sent to another next hop if connecting to the first one failed. It is also sent to another one if the
 * connection was closed without a response, the method is idempotent and none of the content was read (RFC 9110 §9.2.2).
 * After any other failure no further next hop is tried.
 */
import { type ProxyError, toProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import { methodProperties } from '../http/method.js'
import { type HandlerName, Outcome } from '../outcome.js'

/** A next hop: the configuration key that names it, and its URL for messages and logs. */
export interface NextHop {
  readonly source: string
  readonly url: string
}

export interface NextHops<Hop> {
  /** How many there are. */
  readonly size: number
  /** Chooses the next hop for a request; undefined if all of them have been tried. */
  take(tried: ReadonlySet<Hop>): Hop | undefined
  /** A connection to the hop was established. */
  markUp(hop: Hop): void
  /** Connecting to the hop failed. */
  markDown(hop: Hop, error: ProxyError): void
}

/** What the result of an attempt means for the next one. */
export interface AttemptRules<Result> {
  /** Whether another hop may be tried after this result. */
  mayTryNext(result: Result): boolean
  /** Whether the hop has accepted a connection: then its result is more informative than a failure to connect to another. */
  isFromHop(result: Result): boolean
}

/**
 * Tries one next hop after another, each at most once.
 * @param attempt tries one hop; `hasOthers` says whether there are hops that have not been tried
 * @returns the result of the last hop that accepted a connection, or of the last hop tried if none did
 * @throws what `attempt` throws
 */
export async function tryHops<Hop, Result>(
  hops: Pick<NextHops<Hop>, 'size' | 'take'>,
  attempt: (hop: Hop, hasOthers: boolean) => Promise<Result>,
  rules: AttemptRules<Result>,
): Promise<Result> {
  const tried = new Set<Hop>()
  let reported: Result | undefined
  for (let hop = hops.take(tried); hop !== undefined; hop = hops.take(tried)) {
    tried.add(hop)
    const result = await attempt(hop, tried.size < hops.size)
    if (reported === undefined || rules.isFromHop(result) || !rules.isFromHop(reported)) reported = result
    if (!rules.mayTryNext(result)) break
  }
  if (reported === undefined) throw new TypeError('there is no next hop')
  return reported
}

/**
 * Sends a request to one next hop after another, until one has answered it or no other may be tried.
 * @param send sends the request to one hop; `hasOthers` says whether there are hops that have not been tried
 * @returns the outcome of the last hop that accepted a connection, or of the last hop tried if none did
 * @throws the reason of the exchange's signal if that is aborted
 */
export function relayToOneOf<Hop extends NextHop>(
  handler: HandlerName,
  exchange: Exchange,
  hops: NextHops<Hop>,
  send: (hop: Hop, hasOthers: boolean) => Promise<Outcome>,
): Promise<Outcome> {
  const attempt = async (hop: Hop, hasOthers: boolean): Promise<Outcome> => {
    let outcome: Outcome
    try {
      outcome = await send(hop, hasOthers)
    } catch (error) {
      if (exchange.signal.aborted) throw error
      outcome = Outcome.of(handler, toProxyError(error))
    }
    const { error, address } = outcome
    if (address !== undefined) hops.markUp(hop)
    else if (error?.side === 'upstream') hops.markDown(hop, error)
    return error === undefined ? outcome : { ...outcome, error: withNextHop(error, hop) }
  }
  return tryHops(hops, attempt, {
    mayTryNext: outcome => mayTryNext(exchange, outcome),
    isFromHop: ({ error, address }) => error === undefined || address !== undefined,
  })
}

/** Whether a request that failed may be sent to another next hop. */
function mayTryNext({ facts, content, responded, signal }: Exchange, { error, address }: Outcome): boolean {
  if (error?.side !== 'upstream' || responded || signal.aborted || content.bytes > 0) return false
  if (address === undefined) return true
  return error.type === 'connection_terminated' && methodProperties(facts.method).idempotent
}

/** Adds the next hop, and the configuration key that names it, to the detail of an error. */
export function withNextHop(error: ProxyError, { source, url }: NextHop): ProxyError {
  return error.with({ detail: `${source} points to ${url}: ${error.detail ?? `${error.message}.`}` })
}
