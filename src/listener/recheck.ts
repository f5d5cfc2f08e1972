/**
 * Whether a tunnel that is open already would be let through now: the same questions as at its start, to clients, policy
 * and routes of another configuration, with the address that it really has.
 */
import type { Authorities } from '../clients/authorities.js'
import type { Clients } from '../clients/identify.js'
import { ProxyError } from '../errors.js'
import { chooseRoute, type OriginRoute } from '../origin/origin.js'
import type { Policy } from '../policy/decision.js'
import { isPermit } from '../policy/permit.js'
import type { Parents } from '../upstream/parents.js'
import type { ConnectionExchange } from './connection-exchange.js'

/** A CONNECT, or a request whose connection was upgraded, since it has become a pump. */
export interface OpenTunnel {
  readonly exchange: Pick<
    ConnectionExchange,
    'id' | 'clientAddress' | 'clientCertificate' | 'facts' | 'head' | 'decision'
  >
  /** The IP address that it was connected to. */
  readonly address: string
  /** The URL of the parent proxy that this is the address of. */
  readonly parent: string | undefined
  /** What the resolver made of the host, where that is a single label. */
  readonly completed?: string | undefined
  /** Whether it had to begin with TLS for its host. */
  readonly verifiesServerName: boolean
}

export interface RecheckOptions {
  readonly clients: Clients
  /** Of client certificates. */
  readonly authorities: Pick<Authorities, 'judge'>
  readonly policy: Policy
  readonly routes: readonly OriginRoute[]
  readonly parents: Parents | undefined
}

export async function isStillAllowed(
  { exchange, address, parent, completed, verifiesServerName }: OpenTunnel,
  { clients, authorities, policy, routes, parents }: RecheckOptions,
): Promise<boolean> {
  const { facts, head } = exchange
  const client = await clients.identify({
    address: exchange.clientAddress,
    fields: head.fields,
    certificate: authorities.judge(exchange.clientCertificate),
    signal: undefined,
  })
  if (client === undefined || client instanceof ProxyError) return false
  const { target, method } = facts
  // An upgrade by way of `origins`: rules were not asked.
  if (target.form === 'origin')
    return chooseRoute(routes, exchange, target.path)?.methods.includes(method) === true
  if (target.form === 'asterisk') return false
  const { host, port } = target.authority
  const isConnect = target.form === 'authority'
  const form = isConnect ? 'connect' : 'forward'
  const verdict = policy.admit({ form, method, host, port, rules: client.rules })
  if (verdict.kind === 'deny') return false
  const grant = completed === undefined ? verdict.grant : policy.judgeCompleted(verdict.grant, completed)
  if ('kind' in grant) return false
  // What it began with can not be looked at any more.
  if (isConnect ? grant.verifyServerName && !verifiesServerName : !grant.upgradable) return false
  if (parent === undefined) return isPermit(policy.vet(grant, [address]))
  // Which address it has is the parent's knowledge.
  return parents?.has(parent) === true && parents.takes(host) && policy.vetBehindParent(grant) === undefined
}
