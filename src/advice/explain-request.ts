/**
 * The request that a client with this proxy would send for a URL: CONNECT for `https://` and for a bare `host:port`,
 * the URL itself for `http://`.
 *
 * The request line is read by the same reader as any other, so that what is malformed here is malformed there, and
 * is told in the same words.
 */
import { malformed } from '../errors.js'
import type { Authority } from '../http/authority.js'
import type { HeadLimits } from '../http1/head-limits.js'
import { RequestReader } from '../http1/request-reader.js'
import { classify } from '../pipeline/classify.js'
import type { RequestForm } from '../policy/rules.js'

export interface RequestLine {
  readonly form: RequestForm
  readonly method: string
  /** The request target, as it would be sent. */
  readonly target: string
  /** Whether an Upgrade to WebSocket would be asked for. */
  readonly websocket: boolean
}

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//
const HTTPS_PORT = 443

/**
 * @param url `https://`, `http://`, `wss://` or `ws://` and what follows, or `host:port`
 * @param method of a forwarded request; GET when left out
 * @throws RangeError with one clause when no request can be meant
 */
export function requestLineOf(url: string, method?: string): RequestLine {
  if (/[\r\n]/.test(`${url}${method}`)) throw new RangeError('a request line has no line breaks in it')
  const [prefix = '', scheme = ''] = SCHEME.exec(url) ?? []
  const rest = url.slice(prefix.length)
  if (method === 'CONNECT' && /^(?:http|ws)$/i.test(scheme)) {
    throw new RangeError('a CONNECT has no URL; write host:port')
  }
  switch (scheme.toLowerCase()) {
    case 'http':
      return { form: 'forward', method: method ?? 'GET', target: url, websocket: false }
    case 'ws':
      return { form: 'forward', method: method ?? 'GET', target: `http://${rest}`, websocket: true }
    case 'https':
    case 'wss':
      return connectLine(withPort(rest.replace(/[/?#].*$/s, '')), method)
    case '':
      if (!/:\d*$/.test(url)) throw new RangeError(`write https://${url}/, http://${url}/ or ${url}:443`)
      return connectLine(url, method)
    default:
      throw new RangeError(
        `expected https://, http://, wss://, ws:// or host:port, found ${JSON.stringify(url)}`,
      )
  }
}

function connectLine(target: string, method: string | undefined): RequestLine {
  if (method !== undefined && method !== 'CONNECT') {
    throw new RangeError(
      `--method is for http:// and ws://; this is a CONNECT, and what goes through its tunnel can not be seen`,
    )
  }
  return { form: 'connect', method: 'CONNECT', target, websocket: false }
}

/** As clients write the target of a CONNECT, for which a port is required. */
function withPort(authority: string): string {
  const colon = authority.indexOf(':', authority.lastIndexOf(']') + 1)
  if (colon === -1) return `${authority}:${HTTPS_PORT}`
  return authority.endsWith(':') ? `${authority}${HTTPS_PORT}` : authority
}

/**
 * @param extraMethods the extension methods that pass
 * @returns where the request leads
 * @throws ProxyError 400, 414 or 501: what the proxy would answer to whoever sent it
 */
export function readRequestLine(
  { method, target }: RequestLine,
  limits: HeadLimits,
  extraMethods: readonly string[],
): Authority {
  const reader = new RequestReader(limits)
  reader.push(Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: sluice\r\n\r\n`))
  const event = reader.next()
  if (event?.type !== 'head') throw malformed('bad request line')
  const facts = classify(event.head, extraMethods)
  if (!('authority' in facts.target)) throw malformed('bad request target')
  return facts.target.authority
}
