/**
 * The keys that select methods: `methods` of rules and origins, `trace`, and `methods.extra` (RFC 9110 §9.1, §9.3.8,
 * §16.1).
 *
 * Whether such a list may name an extension method depends on `methods.extra`, so references.ts checks that.
 */
import { isExtensionMethod, isMethod, METHOD_NAMES } from '../http/method.js'
import { isToken } from '../http/token.js'
import { list, parsed, section, text, trueOrFalse } from './fields.js'

export const TOKEN_PATTERN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

/** The methods that a rule or an origin may list without `methods.extra`. */
export const RESOURCE_METHODS: readonly string[] = METHOD_NAMES.filter(method => method !== 'CONNECT')

/** @param noConnect why the list must not contain CONNECT */
export function resourceMethod(noConnect: string) {
  return parsed(
    text(`one of ${RESOURCE_METHODS.join(', ')}`, { pattern: TOKEN_PATTERN.replace('^', '^(?!CONNECT$)') }),
    value => {
      if (value !== 'CONNECT') return value
      throw new RangeError(`CONNECT cannot be listed: ${noConnect}`)
    },
  )
}

const fieldName = parsed(text('a field name, such as X-Api-Key', { pattern: TOKEN_PATTERN }), value => {
  if (isToken(value)) return value.toLowerCase()
  throw new RangeError(`expected a field name, such as X-Api-Key, found "${value}"`)
})

export const trace = section({
  enabled: trueOrFalse()
    .prefault(false)
    .describe(
      'Whether TRACE passes, and is echoed if it ends here. It shows its sender what others added to the request. Off, it is answered with 405 and goes nowhere.',
    ),
  exclude: list(fieldName, 'a list of field names, such as [X-Api-Key]')
    .prefault([])
    .describe(
      'Fields, such as X-Api-Key, that the echo leaves out besides Authorization, Proxy-Authorization and Cookie.',
    ),
})

const extensionMethod = parsed(text('a method, such as PROPFIND', { pattern: TOKEN_PATTERN }), value => {
  if (isExtensionMethod(value)) return value
  if (value === 'CONNECT') throw new RangeError('CONNECT opens tunnels, and is no extension method')
  if (isMethod(value))
    throw new RangeError(`${value} is no extension method; list it in methods of a rule or an origin`)
  if (!isToken(value)) throw new RangeError(`expected a method, such as PROPFIND, found "${value}"`)
  throw new RangeError(`"${value}" cannot be let through: a server that ignores case takes it for another`)
})

export const methods = section({
  extra: list(extensionMethod, 'a list of methods, such as [PROPFIND, REPORT]')
    .prefault([])
    .describe(
      'Methods besides the nine, such as PROPFIND, that `http://` requests, and those to upstreams of `origins`, may have, byte for byte. All others are answered with 501.',
    ),
})
