/**
 * Max-Forwards: how many more hops an OPTIONS or TRACE request may take (RFC 9110 §7.6.2).
 *
 * A hop that does not decrement it forwards requests that should end there, and one that guesses the meaning of an
 * invalid value can make a request loop for ever. With other methods the field has no meaning and is not changed.
 */
import { ProxyError } from '../errors.js'
import { FIELD, type FieldSection } from './field-section.js'
import { type Method, methodProperties } from './method.js'

export type MaxForwards =
  /** There is no limit, or the method does not use one: the fields are forwarded unchanged. */
  | { readonly kind: 'unlimited' }
  /** No hops are left: this proxy is the final recipient and answers the request. */
  | { readonly kind: 'final' }
  /** The request is forwarded with `fields`, in which the value is one less; order, case and repetitions preserved. */
  | { readonly kind: 'forward'; readonly fields: FieldSection }

/** The largest value that is forwarded. A larger one is replaced by it, as the section requires. */
const MAX_VALUE = 2 ** 31 - 1
const NUMBER = /^\d+$/
/** The decision for a request without the field. */
export const UNLIMITED: MaxForwards = Object.freeze({ kind: 'unlimited' })

/**
 * @throws ProxyError 400 when the field of an OPTIONS or TRACE is repeated or is not a number in plain digits; the
 *   connection stays usable, as the framing of the message is not in doubt
 * @see RFC 9110 §7.6.2
 */
export function decideMaxForwards(method: Method, fields: FieldSection): MaxForwards {
  const value = fields.value(FIELD['max-forwards'])
  if (value === undefined || !methodProperties(method).maxForwards) return UNLIMITED
  if (fields.isRepeated(FIELD['max-forwards']) || !NUMBER.test(value)) {
    throw new ProxyError('http_request_error', 'bad Max-Forwards', {
      reason: 'max_forwards',
      detail: 'Max-Forwards must occur once, with the number of hops in decimal digits.',
    })
  }
  const hops = Number(value)
  if (hops === 0) return { kind: 'final' }
  return {
    kind: 'forward',
    fields: fields.withValue(FIELD['max-forwards'], String(Math.min(hops - 1, MAX_VALUE))),
  }
}
