/** Allow: the methods that a resource takes, sent with 405 and with the answer to OPTIONS (RFC 9110 §10.2.1). */
import { inTableOrder, METHOD_NAMES, type Method } from './method.js'

/** Which methods beside those that always pass do so here. */
export interface MethodsInUse {
  readonly trace: boolean
  /** Extension methods, in the order to list them. */
  readonly extra: readonly Method[]
}

/** Nine in the order of the table, then others, each once; '' says that the resource takes none, and is a value too. */
export function serializeAllow(methods: Iterable<Method>): string {
  return inTableOrder(methods).join(', ')
}

/** What the server as a whole takes. */
export function serverMethods({ trace, extra }: MethodsInUse): Method[] {
  return [...METHOD_NAMES.filter(name => trace || name !== 'TRACE'), ...extra]
}

/** What a resource may take at most: CONNECT is no method of one. */
export function resourceMethods(use: MethodsInUse): Method[] {
  return serverMethods(use).filter(name => name !== 'CONNECT')
}
