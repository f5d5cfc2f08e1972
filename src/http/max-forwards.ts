/**
 * Max-Forwards: how many more hops an OPTIONS or TRACE may take (RFC 9110 §7.6.2).
 *
 * A hop that does not count it makes a request that was meant to end here go on, and one that guesses at a value it
 * can not read may send it round for ever. On any other method the field means nothing and passes as it is.
 */
import { ProxyError } from '../errors.js'
import { type Fields, fieldValues, lowerName } from './fields.js'
import { type Method, methodProperties } from './method.js'

export type MaxForwards =
  /** There is no limit, or the method knows none: the fields go on as they are. */
  | { readonly kind: 'unlimited' }
  /** No hop is left: whoever holds the request is its final recipient and answers it. */
  | { readonly kind: 'final' }
  /** The request goes on with `fields`, in which one hop less is left; order, case and repeats kept. */
  | { readonly kind: 'forward'; readonly fields: Fields }

/** The largest value that is sent on. A received one beyond it is lowered to it, which the section asks for. */
const MAX_VALUE = 2 ** 31 - 1
const NUMBER = /^\d+$/

/**
 * @throws ProxyError 400 when the field of an OPTIONS or TRACE is repeated or is not a number in plain digits; the
 *   connection may go on, as the framing of the message is not in doubt
 * @see RFC 9110 §7.6.2
 */
export function decideMaxForwards(method: Method, fields: Fields): MaxForwards {
  const values = methodProperties(method).maxForwards ? fieldValues(fields, 'max-forwards') : []
  const [value] = values
  if (value === undefined) return { kind: 'unlimited' }
  if (values.length > 1 || !NUMBER.test(value)) {
    throw new ProxyError('http_request_error', 'bad Max-Forwards', {
      reason: 'max_forwards',
      detail: 'Max-Forwards is given once, as the number of hops in decimal digits.',
    })
  }
  const hops = Number(value)
  if (hops === 0) return { kind: 'final' }
  return { kind: 'forward', fields: withHops(fields, Math.min(hops - 1, MAX_VALUE)) }
}

function withHops(fields: Fields, hops: number): string[] {
  const changed = [...fields]
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (lowerName(fields[i] as string) === 'max-forwards') changed[i + 1] = String(hops)
  }
  return changed
}
