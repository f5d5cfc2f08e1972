/**
 * Sends CONNECT to a parent proxy and reads the response (RFC 9110 §9.3.6, RFC 9112 §3.2.3).
 *
 * What follows a 2xx is the tunnel, whatever the framing fields of the response say. Of the client's fields, the request
 * has only Via, so that forwarding loops can be detected, and the fields of a trace.
 */
import { limitExceeded } from '../errors.js'
import type { CancelSignal, Exchange } from '../exchange.js'
import { type Host, serializeHostPort } from '../http/authority.js'
import { endToEndFields } from '../http/connection.js'
import { type OutgoingTrace, traceFields, withTrace } from '../http/trace-context.js'
import type { Fields } from '../http/fields.js'
import { FIELD } from '../http/field-section.js'
import type { Via } from '../http/via.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import type { SocketReader } from './socket-reader.js'
import type { Connection } from '../upstream/dial.js'
import { Http1Connection } from '../upstream/http1-connection.js'
import { MAX_FIELDS } from '../upstream/http1-sender.js'
import { IGNORED_EVENTS, type UpstreamRequest } from '../upstream/sender.js'

/**
 * Makes the CONNECT request for a parent proxy.
 * @param via this hop's Via
 * @param authorization the value of Proxy-Authorization; undefined if the parent gets none
 */
export function tunnelRequest(
  target: { readonly host: Host; readonly port: number },
  {
    exchange,
    trace,
  }: { readonly exchange: Pick<Exchange, 'head'>; readonly trace: OutgoingTrace | undefined },
  via: Via,
  authorization: string | undefined,
): UpstreamRequest {
  const { head: received } = exchange
  const authority = serializeHostPort(target.host, target.port)
  const members = [...received.fields.membersAsReceived(FIELD.via), via.members[received.minor]]
  const traced = traceFields(endToEndFields(received.fields))
  const traceContext = trace === undefined ? traced : withTrace(traced, trace)
  const fields: Fields = ['Via', members.join(', '), ...traceContext]
  return {
    method: 'CONNECT',
    path: authority,
    host: authority,
    fields: authorization === undefined ? fields : [...fields, 'Proxy-Authorization', authorization],
    content: undefined,
    sendsZeroLength: false,
    expectContinue: false,
    upgrade: undefined,
    cached: undefined,
  }
}

export interface TunnelRequestOptions {
  /** Milliseconds until the head of the response has been received. */
  readonly timeoutMs: number
  /** Maximum bytes of that head. */
  readonly headerBytes: number
  readonly signal: CancelSignal
}

/** The owner of such a connection: it is never pooled, as it serves nothing but the tunnel. */
const NO_POOL = { give: () => {}, remove: () => {} }

/**
 * Sends the request and reads the response.
 * @param dialled the connection to the parent; afterwards it is paused for a 2xx, and closed otherwise
 * @param reader reads the socket of that connection; it keeps the bytes that follow the response
 * @returns the head of the final response
 * @throws ProxyError 502 or 504; the signal's reason if it aborts
 */
export function requestTunnel(
  dialled: Connection,
  reader: SocketReader,
  request: UpstreamRequest,
  { timeoutMs, headerBytes, signal }: TunnelRequestOptions,
): Promise<ReceivedHead> {
  return new Promise((resolve, reject) => {
    const limits = { headerBytes, headerFields: MAX_FIELDS }
    const connection = new Http1Connection(dialled, '', { limits, keepAliveMs: 0 }, NO_POOL, reader)
    const settle = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
    const giveUp = (error: unknown): void => {
      settle()
      connection.abandon()
      reject(error)
    }
    const onAbort = (): void => giveUp(signal.reason)
    const message = `no response to CONNECT in time: ${dialled.where}`
    const timer = setTimeout(
      () => giveUp(limitExceeded('limits.response_timeout', 'http_response_timeout', message)),
      timeoutMs,
    )
    signal.addEventListener('abort', onAbort, { once: true })
    connection.send(request, {
      ...IGNORED_EVENTS,
      responded: head => {
        settle()
        connection.abandon()
        resolve(head)
      },
      upgraded: (head, _socket, rest) => {
        settle()
        reader.unread(rest)
        resolve(head)
      },
      failed: giveUp,
    })
    if (signal.aborted) onAbort()
  })
}
