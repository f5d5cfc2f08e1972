/**
 * The nine methods and what follows from each (RFC 9110 §9; PATCH: RFC 5789), and what follows from any other.
 *
 * Everything that depends on a method (retry, caching, target forms, content, Max-Forwards) reads this table, so
 * that a property can not be right in one place and wrong in another. Methods are compared by exact bytes: `Get`
 * is an unknown method, not GET (RFC 9110 §9.1).
 */
import { ProxyError } from '../errors.js'
import { isToken } from './token.js'

export type TargetForm = 'origin' | 'absolute' | 'authority' | 'asterisk'

export interface MethodProperties {
  /** Read-only by meaning (RFC 9110 §9.2.1). */
  readonly safe: boolean
  /** N identical requests intend what one does; the only ones ever retried (RFC 9110 §9.2.2). */
  readonly idempotent: boolean
  /** `explicit`: only with freshness information in the response (RFC 9110 §9.2.3, RFC 9111 §3). */
  readonly cacheable: 'yes' | 'explicit' | 'no'
  /** `undefined-meaning`: forwarded as is though it means nothing; `forbidden`: the request is refused. */
  readonly requestContent: 'defined' | 'undefined-meaning' | 'forbidden'
  readonly responseContent: 'yes' | 'optional' | 'never'
  /** The forms of request target the method takes (RFC 9112 §3.2). */
  readonly targets: readonly TargetForm[]
  /** Whether Max-Forwards counts hops for it (RFC 9110 §7.6.2). */
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

/** Of a method that is none of the nine: nothing that is not known of it may be relied on (RFC 9110 §16.1.2). */
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

/** One of the nine. */
export type KnownMethod = keyof typeof TABLE

/** The exact bytes of a method that parseMethod let pass: one of the nine, or an extension method. */
export type Method = string

/** The table, frozen, by method name. */
export const METHODS: Readonly<Record<KnownMethod, MethodProperties>> = Object.freeze(TABLE)

const ROWS: ReadonlyMap<string, MethodProperties> = new Map(Object.entries(TABLE))

/** The nine names, in the order of the table. */
export const METHOD_NAMES: readonly KnownMethod[] = Object.freeze(Object.keys(TABLE) as KnownMethod[])

/** Whether it is one of the nine, byte for byte. */
export function isMethod(text: string): text is KnownMethod {
  return ROWS.has(text)
}

/**
 * Whether it can be let through as an extension method (RFC 9110 §16.1): any token but the nine, in whatever case.
 * `connect` is not CONNECT, but a server that ignores case takes it for that.
 */
export function isExtensionMethod(text: string): boolean {
  return isToken(text) && !isMethod(text.toUpperCase())
}

/** The row of one of the nine; of any other method the one that promises nothing. */
export function methodProperties(method: Method): MethodProperties {
  return ROWS.get(method) ?? EXTENSION
}

/** Those of the nine in the order of the table, then the others as they come; each once. */
export function inTableOrder(methods: Iterable<Method>): Method[] {
  const given = new Set(methods)
  return [...METHOD_NAMES.filter(name => given.has(name)), ...[...given].filter(name => !isMethod(name))]
}

/**
 * @param text a token, as the request line gave it
 * @param extra the extension methods that pass
 * @throws ProxyError 501 for any other token than these and the nine, byte for byte (RFC 9110 §9.1, §15.6.2)
 */
export function parseMethod(text: string, extra: readonly string[]): Method {
  if (ROWS.has(text) || extra.includes(text)) return text
  const implemented = [...METHOD_NAMES, ...extra].join(', ')
  throw new ProxyError('http_request_error', 'method not implemented', {
    status: 501,
    close: true,
    reason: 'method_not_implemented',
    detail: `The method is not one of ${implemented}, compared byte for byte; methods.extra is where others are added.`,
  })
}
