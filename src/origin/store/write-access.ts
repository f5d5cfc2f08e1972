/**
 * Decides who may write to the store: clients whose address is configured, but no page of another site in their browsers.
 *
 * A browser sends requests on behalf of any page, from its user's address, and the permission to write goes by address.
 * The browser says which site the page belongs to, in Sec-Fetch-Site and in Origin. Both are relative to the requested
 * host name, and the owner of any name can make it resolve to this machine (DNS rebinding). So a request from a page is
 * accepted only under a name that no one else can own, or one that is configured.
 */
import { ProxyError } from '../../errors.js'
import type { Exchange } from '../../exchange.js'
import type { Host } from '../../http/authority.js'
import { type Fields, fieldValues } from '../../http/fields.js'

const OWN_SITE: ReadonlySet<string> = new Set(['same-origin', 'none'])

export interface WriteAccess {
  /** Whether `origins[].store.write` names the client. */
  readonly mayWrite: boolean
  /** Whether `origins[].host` limits the store to certain hosts, of which the request then has one. */
  readonly isHostNamed: boolean
}

/**
 * Checks a request with an unsafe method.
 * @throws ProxyError 403
 */
export function checkWriteAccess(
  { head, facts }: Pick<Exchange, 'head' | 'facts'>,
  { mayWrite, isHostNamed }: WriteAccess,
): void {
  if (!mayWrite) {
    throw forbidden(
      'this client may not write to the store',
      'store_write',
      'origins[].store.write lists the addresses that may write; this client is not among them.',
    )
  }
  const sites = fieldValues(head.fields.list, 'sec-fetch-site')
  const origins = fieldValues(head.fields.list, 'origin')
  const host = facts.host?.text.toLowerCase()
  const isOwn = (origin: string): boolean => {
    const text = origin.toLowerCase()
    return host !== undefined && (text === `http://${host}` || text === `https://${host}`)
  }
  if (!sites.every(site => OWN_SITE.has(site)) || !origins.every(isOwn)) {
    throw forbidden(
      'a page of another site may not write to the store',
      'store_cross_site',
      'According to Sec-Fetch-Site or Origin, a page of another site sent this request; no configuration key allows that.',
    )
  }
  if (isHostNamed || !isFromBrowser(head.fields.list) || isUnownableName(facts.host?.host)) return
  throw forbidden(
    'a page may not write to the store under a name that is not configured',
    'store_host',
    'A browser sent this request for a page, and any site can make its name resolve to this machine; add the name to origins[].host.',
  )
}

function isFromBrowser(fields: Fields): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const name = (fields[i] ?? '').toLowerCase()
    if (name === 'origin' || name.startsWith('sec-fetch-')) return true
  }
  return false
}

/** Whether no one can own the name of a host, so that DNS cannot redirect it: addresses, and localhost (RFC 6761 §6.3). */
function isUnownableName(host: Host | undefined): boolean {
  return host !== undefined && (host.kind !== 'name' || host.name === 'localhost')
}

function forbidden(message: string, reason: string, detail: string): ProxyError {
  return new ProxyError('http_request_denied', message, { reason, detail })
}
