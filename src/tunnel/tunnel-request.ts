/**
 * CONNECT as it is sent to a parent proxy, and its answer (RFC 9110 §9.3.6, RFC 9112 §3.2.3).
 *
 * What comes behind a 2xx is the tunnel, whatever the framing fields of that answer say. Via goes with the request, so
 * that one that goes round in a circle can be told, and so do the fields of a trace; of the client's fields no others.
 */
import type { Socket } from 'node:net'
import { beyond, ProxyError } from '../errors.js'
import type { CancelSignal, Exchange } from '../exchange.js'
import { type Host, serializeHostPort } from '../http/authority.js'
import { endToEndFields } from '../http/connection.js'
import { type Fields, listMembers } from '../http/fields.js'
import { traceFields, withTrace } from '../http/trace-context.js'
import { viaMember } from '../http/via.js'
import { type ReceivedHead, ResponseHeadReader } from '../http1/response-head-reader.js'
import type { SocketReader } from '../relay/read-buffer.js'
import { upstreamFailure } from '../upstream/failures.js'

/** Interim answers skipped; a parent that sends more does not mean to come to an end. */
const MAX_INTERIM = 100

/**
 * @param received the client's CONNECT, whose Via and trace are carried on
 * @param pseudonym this hop's name in Via
 * @param authorization the value of Proxy-Authorization, where the parent is shown one
 */
export function serializeTunnelRequest(
  target: { readonly host: Host; readonly port: number },
  { head: received, trace }: Pick<Exchange, 'head' | 'trace'>,
  pseudonym: string,
  authorization: string | undefined,
): string {
  const authority = serializeHostPort(target.host, target.port)
  const via = [...listMembers(received.fields, 'via'), viaMember(received.minor, pseudonym)].join(', ')
  const traced = traceFields(endToEndFields(received.fields))
  const traceContext = trace === undefined ? traced : withTrace(traced, trace)
  const fields: Fields = ['Host', authority, 'Via', via, ...traceContext]
  const all = authorization === undefined ? fields : [...fields, 'Proxy-Authorization', authorization]
  let text = `CONNECT ${authority} HTTP/1.1\r\n`
  for (let i = 0; i + 1 < all.length; i += 2) text += `${all[i]}: ${all[i + 1]}\r\n`
  return `${text}\r\n`
}

export interface AskOptions {
  /** The parent for messages. */
  readonly where: string
  /** Milliseconds until its answer has come. */
  readonly timeoutMs: number
  readonly maxHeaderBytes: number
  readonly signal: CancelSignal
}

/**
 * Sends the request and reads the answer to it.
 * @param socket connected; paused when the answer is there, and destroyed when none comes
 * @param reader what reads it; it has what came behind the answer
 * @returns the head of the answer, never an interim one
 * @throws ProxyError 502 or 504; the signal's reason when it aborts
 */
export function askForTunnel(
  socket: Socket,
  reader: SocketReader,
  request: string,
  { where, timeoutMs, maxHeaderBytes, signal }: AskOptions,
): Promise<ReceivedHead> {
  return new Promise((resolve, reject) => {
    const heads = new ResponseHeadReader(maxHeaderBytes)
    let interim = 0
    let over = false
    const settle = (): void => {
      over = true
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      for (const [event, listener] of listeners) socket.off(event, listener)
    }
    const fail = (error: unknown): void => {
      settle()
      socket.destroy()
      reject(error)
    }
    const onAbort = (): void => fail(signal.reason)
    const closed = (): void =>
      fail(new ProxyError('connection_terminated', `closed without an answer: ${where}`))
    const listeners = [
      ['error', (error: Error): void => fail(upstreamFailure(error, where))],
      ['end', closed],
      ['close', closed],
    ] as const
    const timer = setTimeout(
      () =>
        fail(
          beyond(
            'limits.response_timeout',
            'http_response_timeout',
            `no answer to CONNECT in time: ${where}`,
          ),
        ),
      timeoutMs,
    )
    const read = (chunk: Buffer): void => {
      heads.push(chunk)
      for (let head = heads.next(); head !== undefined; head = heads.next()) {
        if (!isInterim(head.status)) {
          settle()
          socket.pause()
          reader.unread(heads.takeRest())
          resolve(head)
          return
        }
        if (++interim > MAX_INTERIM) throw new ProxyError('http_protocol_error', 'too many interim responses')
      }
    }
    for (const [event, listener] of listeners) socket.on(event, listener)
    signal.addEventListener('abort', onAbort, { once: true })
    socket.write(request, 'latin1')
    socket.resume()
    reader.start(Number.POSITIVE_INFINITY, chunk => {
      try {
        if (!over) read(chunk)
      } catch (error) {
        fail(error)
      }
      return true
    })
    if (signal.aborted && !over) onAbort()
  })
}

/** @throws ProxyError 502 for a status that no answer to CONNECT has */
function isInterim(status: number): boolean {
  if (status < 100 || status === 101) {
    throw new ProxyError('http_protocol_error', `status code ${status} in answer to CONNECT`)
  }
  return status < 200
}
