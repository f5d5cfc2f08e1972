/**
 * Max-Forwards: how many more hops an OPTIONS or TRACE may take (RFC 9110 §7.6.2).
 *
 * A hop that does not count it makes a request that was meant to end here go on, and one that guesses at a value it
 * can not read may send it round for ever. On any other method the field means nothing and passes as it is.
 */
import { ProxyError } from '../errors.js'
import { FIELD, type FieldSection } from './field-section.js'
import { type Method, methodProperties } from './method.js'

export type MaxForwards =
  /** There is no limit, or the method knows none: the fields go on as they are. */
  | { readonly kind: 'unlimited' }
  /** No hop is left: whoever holds the request is its final recipient and answers it. */
  | { readonly kind: 'final' }
  /** The request goes on with `fields`, in which one hop less is left; order, case and repeats kept. */
  | { readonly kind: 'forward'; readonly fields: FieldSection }

/** The largest value that is sent on. A received one beyond it is lowered to it, which the section asks for. */
const MAX_VALUE = 2 ** 31 - 1
const NUMBER = /^\d+$/
/** What a request without the field has. */
export const UNLIMITED: MaxForwards = Object.freeze({ kind: 'unlimited' })

/**
 * @throws ProxyError 400 when the field of an OPTIONS or TRACE is repeated or is not a number in plain digits; the
 *   connection may go on, as the framing of the message is not in doubt
 * @see RFC 9110 §7.6.2
 */
export function decideMaxForwards(method: Method, fields: FieldSection): MaxForwards {
  const value = fields.value(FIELD['max-forwards'])
  if (value === undefined || !methodProperties(method).maxForwards) return UNLIMITED
  if (fields.isRepeated(FIELD['max-forwards']) || !NUMBER.test(value)) {
    throw new ProxyError('http_request_error', 'bad Max-Forwards', {
      reason: 'max_forwards',
      detail: 'Max-Forwards is given once, as the number of hops in decimal digits.',
    })
  }
  const hops = Number(value)
  if (hops === 0) return { kind: 'final' }
  return {
    kind: 'forward',
    fields: fields.withValue(FIELD['max-forwards'], String(Math.min(hops - 1, MAX_VALUE))),
  }
}
