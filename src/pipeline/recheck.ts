/**
 * Decides after a reload whether an open tunnel would still be allowed, and to which client: the same decisions as at its
 * start, by the clients, policy and routes of the new configuration, for the address that it is connected to.
 */
import type { Authorities } from '../tls/authorities.js'
import type { Client, Clients } from '../clients/identify.js'
import { ProxyError } from '../errors.js'
import type { ReceivedExchange } from './admitted-exchange.js'
import { chooseRoute, type OriginRoute } from '../origin/origin.js'
import type { Policy } from '../policy/decision.js'
import { isPermit } from '../policy/permit.js'
import type { OpenTunnel } from '../tunnel/registry.js'
import type { Parents } from '../upstream/parents.js'

/** The parts of an open tunnel that the decision depends on. */
export interface RecheckedTunnel extends Omit<OpenTunnel, 'admitted'> {
  readonly admitted: {
    readonly exchange: Pick<ReceivedExchange, 'clientAddress' | 'clientCertificate' | 'facts' | 'head'>
  }
}

export interface RecheckOptions {
  readonly clients: Clients
  /** Judge client certificates. */
  readonly authorities: Pick<Authorities, 'judge'>
  readonly policy: Policy
  readonly routes: readonly OriginRoute[]
  readonly parents: Parents | undefined
}

/** @returns the client that would have it; undefined where nobody would */
export async function recheck(tunnel: RecheckedTunnel, options: RecheckOptions): Promise<Client | undefined> {
  const { exchange } = tunnel.admitted
  const { clients, authorities } = options
  const client = await clients.identify({
    clientAddress: exchange.clientAddress,
    head: exchange.head,
    clientCertificate: authorities.judge(exchange.clientCertificate),
    signal: undefined,
  })
  if (client === undefined || client instanceof ProxyError) return undefined
  return isAllowed(tunnel, client, options) ? client : undefined
}

function isAllowed(
  { admitted: { exchange }, address, parent, completed, verifiesServerName }: RecheckedTunnel,
  { rules, mode }: Client,
  { policy, routes, parents }: RecheckOptions,
): boolean {
  const { facts } = exchange
  const { target, method } = facts
  // An upgrade through `origins`, for which no rules apply.
  if (target.form === 'origin')
    return chooseRoute(routes, exchange, target.path)?.methods.includes(method) === true
  if (target.form === 'asterisk') return false
  const { host, port } = target.authority
  const isConnect = target.form === 'authority'
  const form = isConnect ? 'connect' : 'forward'
  const verdict = policy.admit({ form, method, host, port, rules, mode })
  if (verdict.kind === 'deny') return false
  const grant = completed === undefined ? verdict.grant : policy.judgeCompleted(verdict.grant, completed)
  if ('kind' in grant) return false
  // Whether its handshake had the right server name cannot be checked any more.
  if (isConnect ? grant.verifyServerName && !verifiesServerName : !grant.upgradable) return false
  if (parent === undefined) return isPermit(policy.vet(grant, [address]))
  // Only the parent knows the address.
  return parents?.has(parent) === true && parents.takes(host) && policy.vetBehindParent(grant) === undefined
}
