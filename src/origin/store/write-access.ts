/**
 * Who may change the store: clients that the configuration names, and no page of another site in their browsers.
 *
 * A browser sends requests for any page that asks it to, with the address of the person in front of it, and addresses
 * are what may write. It also says whose page it was: in Sec-Fetch-Site, and in Origin. Both compare with the name that
 * the browser asked for, and whoever owns a name can have it lead to this machine (DNS rebinding): so what a page asks
 * for is taken only under a name that cannot be anybody's, or one that the configuration gives.
 */
import { ProxyError } from '../../errors.js'
import type { Exchange } from '../../exchange.js'
import type { Host } from '../../http/authority.js'
import { type Fields, fieldValues } from '../../http/fields.js'

const OWN_SITE: ReadonlySet<string> = new Set(['same-origin', 'none'])

export interface WriteAccess {
  /** Whether `origins[].store.write` names the client. */
  readonly mayWrite: boolean
  /** Whether `origins[].host` says which Host the store is for: the request has one of those then. */
  readonly isHostNamed: boolean
}

/**
 * To be asked for methods that are not safe.
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
      'origins[].store.write names the addresses that may; yours is not among them.',
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
      'Sec-Fetch-Site or Origin says that another site asked for this; nothing allows that.',
    )
  }
  if (isHostNamed || !isOfBrowser(head.fields.list) || isNobodysName(facts.host?.host)) return
  throw forbidden(
    'a page may not write to the store under a name that is not configured',
    'store_host',
    'A browser sent this for a page, and any page can have its own name lead here; add the name to origins[].host.',
  )
}

function isOfBrowser(fields: Fields): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const name = (fields[i] ?? '').toLowerCase()
    if (name === 'origin' || name.startsWith('sec-fetch-')) return true
  }
  return false
}

/** Whether a Host leads nowhere but where its client knows: addresses, and localhost (RFC 6761 §6.3). */
function isNobodysName(host: Host | undefined): boolean {
  return host !== undefined && (host.kind !== 'name' || host.name === 'localhost')
}

function forbidden(message: string, reason: string, detail: string): ProxyError {
  return new ProxyError('http_request_denied', message, { reason, detail })
}
