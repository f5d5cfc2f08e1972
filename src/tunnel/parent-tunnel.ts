/** The upstream end of a tunnel, and how a parent proxy is asked to open one. */
import type { Via } from '../http/via.js'
import { type ProxyError, toProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { Grant } from '../policy/permit.js'
import { tryHops, withNextHop } from '../forward/failover.js'
import { checkLoop } from '../forward/forward.js'
import { BufferedReader, type ReadBuffers, type SocketReader, StreamReader } from './socket-reader.js'
import type { Connection, Dialer } from '../upstream/dial.js'
import { type Parent, parentRefusal, type Parents } from '../upstream/parents.js'
import { requestTunnel, tunnelRequest } from './tunnel-request.js'

/** A connection to the host itself, or to a parent proxy that has opened a tunnel to it. */
export interface TunnelUpstream {
  readonly connection: Connection
  /** Reads the socket of the connection. */
  readonly reader: SocketReader
  /** The URL of the parent proxy, if there is one. */
  readonly parent?: string
}

export interface TunnelUpstreamOptions {
  readonly dialer: Pick<Dialer, 'connect' | 'connectTls' | 'permitConfigured'>
  readonly buffers: ReadBuffers
  /** This hop's Via. */
  readonly via: Via
  /** Milliseconds for a parent to respond to CONNECT. */
  readonly responseTimeoutMs: number
  /** Maximum bytes of the head of that response. */
  readonly headerBytes: number
}

/** No parent has opened the tunnel: the error of one of them. */
export class ParentTunnelError extends Error {
  readonly error: ProxyError
  /** The URL of that parent. */
  readonly parent: string
  /** The connection to that parent, if one was established. */
  readonly connection: Pick<Connection, 'where' | 'connectMs'> | undefined

  constructor(error: ProxyError, parent: string, connection: ParentTunnelError['connection']) {
    super(error.message, { cause: error })
    this.error = error
    this.parent = parent
    this.connection = connection
  }
}

/**
 * Asks one parent after another to open a tunnel; nothing of the tunnel is sent before one of them has agreed. No further
 * parent is asked after a response that refuses the request itself (any but 2xx and 5xx), nor after a response timeout.
 * @throws ParentTunnelError with 502, 504, 403 or 508; ProxyError 508 before a parent is asked; the signal's reason if it
 *   aborts
 */
export async function openThroughParent(
  grant: Grant,
  parents: Parents,
  admitted: AdmittedExchange,
  options: TunnelUpstreamOptions,
): Promise<TunnelUpstream> {
  const { exchange } = admitted
  checkLoop(exchange.head.fields, options.via)
  const attempt = async (parent: Parent): Promise<TunnelUpstream | ParentTunnelError> => {
    let connection: Connection | undefined
    try {
      const connected = await connectTo(parent, parents, exchange, options)
      connection = connected.connection
      return await openOn(connected, parent, grant, admitted, options)
    } catch (error) {
      if (exchange.signal.aborted) throw error
      return new ParentTunnelError(withNextHop(toProxyError(error), parent), parent.url, connection)
    }
  }
  const result = await tryHops(parents, attempt, {
    mayTryNext: opened => opened instanceof ParentTunnelError && mayTryNext(opened.error),
    isFromHop: ({ connection }) => connection !== undefined,
  })
  if (result instanceof ParentTunnelError) throw result
  return result
}

/** Reasons for which another parent would fail in the same way. */
const FINAL = new Set(['parent_refused', 'parent_credentials', 'http_response_timeout'])

function mayTryNext({ side, reason }: ProxyError): boolean {
  return side === 'upstream' && !FINAL.has(reason)
}

async function openOn(
  { connection, reader }: Pick<TunnelUpstream, 'connection' | 'reader'>,
  parent: Parent,
  grant: Grant,
  admitted: AdmittedExchange,
  options: TunnelUpstreamOptions,
): Promise<TunnelUpstream> {
  const request = tunnelRequest(grant, admitted, options.via, parent.authorization)
  const head = await requestTunnel(connection, reader, request, {
    timeoutMs: options.responseTimeoutMs,
    headerBytes: options.headerBytes,
    signal: admitted.exchange.signal,
  })
  if (head.status < 300) return { connection, reader, parent: parent.url }
  throw parentRefusal(parent, head, 'CONNECT')
}

async function connectTo(
  parent: Parent,
  parents: Parents,
  exchange: Exchange,
  { dialer, buffers }: TunnelUpstreamOptions,
): Promise<Pick<TunnelUpstream, 'connection' | 'reader'>> {
  const { secureContext } = parent
  const { signal } = exchange
  const reader = new BufferedReader(buffers)
  let connection: Connection
  try {
    const permit = await dialer.permitConfigured(parent, exchange)
    connection =
      secureContext === undefined
        ? await dialer.connect(permit, signal, reader.onRead)
        : await dialer.connectTls(permit, secureContext, signal)
  } catch (error) {
    const failure = toProxyError(error)
    if (!signal.aborted && failure.side === 'upstream') parents.markDown(parent, failure)
    throw error
  }
  parents.markUp(parent)
  return { connection, reader: secureContext === undefined ? reader : new StreamReader(connection.socket) }
}
