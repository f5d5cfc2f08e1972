/**
 * Who may change the store: clients that the configuration names, and no page of another site in their browsers.
 *
 * A browser sends requests for any page that asks it to, with the address of the person in front of it, and addresses
 * are what may write. It also says whose page it was: in Sec-Fetch-Site, and in Origin.
 */
import { ProxyError } from '../../errors.js'
import type { Exchange } from '../../exchange.js'
import { fieldValues } from '../../http/fields.js'

const OWN_SITE: ReadonlySet<string> = new Set(['same-origin', 'none'])

/**
 * To be asked for methods that are not safe.
 * @param mayWrite whether `origins[].store.write` names the client
 * @throws ProxyError 403
 */
export function checkWriteAccess({ head, facts }: Exchange, mayWrite: boolean): void {
  if (!mayWrite) {
    throw forbidden(
      'this client may not write to the store',
      'store_write',
      'origins[].store.write names the addresses that may; yours is not among them.',
    )
  }
  const sites = fieldValues(head.fields, 'sec-fetch-site')
  const origins = fieldValues(head.fields, 'origin')
  const host = facts.host?.text.toLowerCase()
  const isOwn = (origin: string): boolean => {
    const text = origin.toLowerCase()
    return host !== undefined && (text === `http://${host}` || text === `https://${host}`)
  }
  if (sites.every(site => OWN_SITE.has(site)) && origins.every(isOwn)) return
  throw forbidden(
    'a page of another site may not write to the store',
    'store_cross_site',
    'Sec-Fetch-Site or Origin says that another site asked for this; nothing allows that.',
  )
}

function forbidden(message: string, reason: string, detail: string): ProxyError {
  return new ProxyError('http_request_denied', message, { reason, detail })
}
