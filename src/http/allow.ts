/** Allow: the methods that a resource takes, sent with 405 and with the answer to OPTIONS (RFC 9110 §10.2.1). */
import { METHOD_NAMES, type Method } from './method.js'

/** In the order of the table, each once; '' says that the resource takes no method, and is a value like any other. */
export function serializeAllow(methods: Iterable<Method>): string {
  const allowed = new Set(methods)
  return METHOD_NAMES.filter(name => allowed.has(name)).join(', ')
}
