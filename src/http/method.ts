/**
 * The properties of the nine standard methods (RFC 9110 §9; PATCH: RFC 5789), and of all others.
 *
 * Everything that depends on a method (retry, caching, target forms, content, Max-Forwards) reads this table, so that a
 * property cannot differ from one place to another. Methods are compared byte for byte: `Get` is an unknown method, not
 * GET (RFC 9110 §9.1).
 */
import { ProxyError } from '../errors.js'
import { isToken } from './token.js'

export type TargetForm = 'origin' | 'absolute' | 'authority' | 'asterisk'

export interface MethodProperties {
  /** The semantics are read-only (RFC 9110 §9.2.1). */
  readonly safe: boolean
  /** Several identical requests have the same intended effect as one; only such are ever retried (RFC 9110 §9.2.2). */
  readonly idempotent: boolean
  /** `explicit`: only if the response has freshness information (RFC 9110 §9.2.3, RFC 9111 §3). */
  readonly cacheable: 'yes' | 'explicit' | 'no'
  /**
   * `undefined-meaning`: content is forwarded although it has no defined meaning; `forbidden`: the request is refused.
   */
  readonly requestContent: 'defined' | 'undefined-meaning' | 'forbidden'
  readonly responseContent: 'yes' | 'optional' | 'never'
  /** The forms of request target that the method allows (RFC 9112 §3.2). */
  readonly targets: readonly TargetForm[]
  /** Whether Max-Forwards applies to the method (RFC 9110 §7.6.2). */
  readonly maxForwards: boolean
  readonly section: string
}

const RESOURCE = ['origin', 'absolute'] as const

const TABLE = {
  GET: {
    safe: true,
    idempotent: true,
    cacheable: 'yes',
    requestContent: 'undefined-meaning',
    responseContent: 'yes',
    targets: RESOURCE,
    maxForwards: false,
    section: 'RFC 9110 §9.3.1',
  },
  HEAD: {
    safe: true,
    idempotent: true,
    cacheable: 'yes',
    requestContent: 'undefined-meaning',
    responseContent: 'never',
    targets: RESOURCE,
    maxForwards: false,
    section: 'RFC 9110 §9.3.2',
  },
  POST: {
    safe: false,
    idempotent: false,
    cacheable: 'explicit',
    requestContent: 'defined',
    responseContent: 'yes',
    targets: RESOURCE,
    maxForwards: false,
    section: 'RFC 9110 §9.3.3',
  },
  PUT: {
    safe: false,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'defined',
    responseContent: 'optional',
    targets: RESOURCE,
    maxForwards: false,
    section: 'RFC 9110 §9.3.4',
  },
  DELETE: {
    safe: false,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'undefined-meaning',
    responseContent: 'optional',
    targets: RESOURCE,
    maxForwards: false,
    section: 'RFC 9110 §9.3.5',
  },
  CONNECT: {
    safe: false,
    idempotent: false,
    cacheable: 'no',
    requestContent: 'forbidden',
    responseContent: 'never',
    targets: ['authority'],
    maxForwards: false,
    section: 'RFC 9110 §9.3.6',
  },
  OPTIONS: {
    safe: true,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'undefined-meaning',
    responseContent: 'optional',
    targets: ['origin', 'absolute', 'asterisk'],
    maxForwards: true,
    section: 'RFC 9110 §9.3.7',
  },
  TRACE: {
    safe: true,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'forbidden',
    responseContent: 'yes',
    targets: RESOURCE,
    maxForwards: true,
    section: 'RFC 9110 §9.3.8',
  },
  PATCH: {
    safe: false,
    idempotent: false,
    cacheable: 'explicit',
    requestContent: 'defined',
    responseContent: 'optional',
    targets: RESOURCE,
    maxForwards: false,
    section: 'RFC 5789 §2',
  },
} as const satisfies Record<string, MethodProperties>

/** Any method that is not one of the nine: no property can be assumed of it (RFC 9110 §16.1.2). */
const EXTENSION: MethodProperties = Object.freeze({
  safe: false,
  idempotent: false,
  cacheable: 'no',
  requestContent: 'defined',
  responseContent: 'optional',
  targets: RESOURCE,
  maxForwards: false,
  section: 'RFC 9110 §16.1',
})

/** One of the nine standard methods. */
export type KnownMethod = keyof typeof TABLE

/** The exact bytes of a method that parseMethod accepted: one of the nine, or an extension method. */
export type Method = string

/** The table, frozen, by method name. */
export const METHODS: Readonly<Record<KnownMethod, MethodProperties>> = Object.freeze(TABLE)

const ROWS: ReadonlyMap<string, MethodProperties> = new Map(Object.entries(TABLE))

/** The nine names, in the order of the table. */
export const METHOD_NAMES: readonly KnownMethod[] = Object.freeze(Object.keys(TABLE) as KnownMethod[])

/** Whether the text is one of the nine, byte for byte. */
export function isMethod(text: string): text is KnownMethod {
  return ROWS.has(text)
}

/**
 * Whether the text can be enabled as an extension method (RFC 9110 §16.1): any token except the nine in any case.
 * `connect` is not CONNECT, but a server that ignores case would treat it as such.
 */
export function isExtensionMethod(text: string): boolean {
  return isToken(text) && !isMethod(text.toUpperCase())
}

/** The row of one of the nine; for any other method the row that assumes nothing. */
export function methodProperties(method: Method): MethodProperties {
  return ROWS.get(method) ?? EXTENSION
}

/** Those of the nine in the order of the table, then the others in the order given; each once. */
export function inTableOrder(methods: Iterable<Method>): Method[] {
  const given = new Set(methods)
  return [...METHOD_NAMES.filter(name => given.has(name)), ...[...given].filter(name => !isMethod(name))]
}

/**
 * @param text a token, from the request line
 * @param extra the extension methods that are enabled
 * @throws ProxyError 501 for any token that is neither one of these nor of the nine, byte for byte (RFC 9110 §9.1,
 *   §15.6.2)
 */
export function parseMethod(text: string, extra: readonly string[]): Method {
  if (ROWS.has(text) || extra.includes(text)) return text
  const implemented = [...METHOD_NAMES, ...extra].join(', ')
  throw new ProxyError('http_request_error', 'method not implemented', {
    status: 501,
    close: true,
    reason: 'method_not_implemented',
    detail: `The method is not one of ${implemented}, compared byte for byte; methods.extra enables others.`,
  })
}
