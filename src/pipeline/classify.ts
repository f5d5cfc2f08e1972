/**
 * Parses a request head: the method, the form of the target, Host, and Expect. Every malformed request is refused here,
 * before a policy, a name or an address is considered (RFC 9112 §3; RFC 9110 §9.3.6, §9.3.8).
 */
import { malformed } from '../errors.js'
import type { RequestFacts } from '../exchange.js'
import { parseHostField } from '../http/authority.js'
import { expectsContinue } from '../http/expect.js'
import { FIELD } from '../http/field-section.js'
import { methodProperties, parseMethod } from '../http/method.js'
import { parseRequestTarget } from '../http/request-target.js'
import type { RequestHead } from '../http1/request-reader.js'

/**
 * @param extraMethods the extension methods that are enabled
 * @throws ProxyError 400, 417 or 501
 */
export function classify(head: RequestHead, extraMethods: readonly string[]): RequestFacts {
  const method = parseMethod(head.method, extraMethods)
  const target = parseRequestTarget(method, head.target)
  const named = 'authority' in target ? target.authority : undefined
  const host = parseHostField(head.fields, head.minor, named)
  if (methodProperties(method).requestContent === 'forbidden' && head.framing.kind !== 'none') {
    throw malformed(`${method} with content`)
  }
  const expectContinue = head.fields.has(FIELD.expect) && expectsContinue(head.fields, head.minor)
  return { method, target, host, expectContinue }
}
