/**
 * CONNECT as it is sent to a parent proxy, and its answer (RFC 9110 §9.3.6, RFC 9112 §3.2.3).
 *
 * What comes behind a 2xx is the tunnel, whatever the framing fields of that answer say. Via goes with the request, so
 * that one that goes round in a circle can be told, and so do the fields of a trace; of the client's fields no others.
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
import type { UpstreamRequest } from '../upstream/sender.js'

/**
 * @param received the client's CONNECT, whose Via and trace are carried on
 * @param via this hop
 * @param authorization the value of Proxy-Authorization, where the parent is shown one
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

export interface AskOptions {
  /** Milliseconds until its answer has come. */
  readonly timeoutMs: number
  readonly headerBytes: number
  readonly signal: CancelSignal
}

/** Whatever becomes of a connection to a parent that is asked for a tunnel, it serves nothing else. */
const NOBODY = { give: () => {}, remove: () => {} }

/**
 * Sends the request and reads the answer to it.
 * @param dialled paused when it is a tunnel, and destroyed otherwise
 * @param reader what reads its socket; it has what came behind the answer
 * @returns the head of the answer, never an interim one
 * @throws ProxyError 502 or 504; the signal's reason when it aborts
 */
export function askForTunnel(
  dialled: Connection,
  reader: SocketReader,
  request: UpstreamRequest,
  { timeoutMs, headerBytes, signal }: AskOptions,
): Promise<ReceivedHead> {
  return new Promise((resolve, reject) => {
    const limits = { headerBytes, headerFields: MAX_FIELDS }
    const connection = new Http1Connection(dialled, '', { limits, keepAliveMs: 0 }, NOBODY, reader)
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
    const late = `no answer to CONNECT in time: ${dialled.where}`
    const timer = setTimeout(
      () => giveUp(limitExceeded('limits.response_timeout', 'http_response_timeout', late)),
      timeoutMs,
    )
    signal.addEventListener('abort', onAbort, { once: true })
    connection.send(request, {
      ...UNHEARD,
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

/** What says nothing of whether there is a tunnel. */
const UNHEARD = {
  connected: () => {},
  sent: () => {},
  informed: () => {},
  cached: () => {},
  data: () => {},
  ended: () => {},
}
