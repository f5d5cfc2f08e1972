/** Allow: the methods that a resource supports, sent with 405 and in the response to OPTIONS (RFC 9110 §10.2.1). */
import { inTableOrder, METHOD_NAMES, type Method } from './method.js'

/** Methods that the configuration enables in addition to those that are always supported. */
export interface MethodsInUse {
  readonly trace: boolean
  /** Extension methods, in the order in which Allow lists them. */
  readonly extra: readonly Method[]
}

/**
 * The value of Allow: the nine standard methods in the order of the table, then the others, each once. The empty
 * string is a valid value and says that the resource supports no method.
 */
export function serializeAllow(methods: Iterable<Method>): string {
  return inTableOrder(methods).join(', ')
}

/** The methods that the server as a whole supports. */
export function serverMethods({ trace, extra }: MethodsInUse): Method[] {
  return [...METHOD_NAMES.filter(name => trace || name !== 'TRACE'), ...extra]
}

/** The methods that a resource can support at most: CONNECT does not apply to resources. */
export function resourceMethods(use: MethodsInUse): Method[] {
  return serverMethods(use).filter(name => name !== 'CONNECT')
}
