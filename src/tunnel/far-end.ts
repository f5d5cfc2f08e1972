/** The far end of a tunnel: a connection to the host itself, or to a parent proxy that has made one. */
import type { Via } from '../http/via.js'
import { type ProxyError, toProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { Grant } from '../policy/permit.js'
import { explained } from '../forward/failover.js'
import { checkLoop } from '../forward/forward.js'
import { BufferedReader, type ReadBuffers, type SocketReader, StreamReader } from './socket-reader.js'
import type { Connection, Dialer } from '../upstream/dial.js'
import { type Parent, parentRefusal, type Parents } from '../upstream/parents.js'
import { askForTunnel, tunnelRequest } from './tunnel-request.js'

export interface FarEnd {
  readonly connection: Connection
  /** What reads its socket. */
  readonly reader: SocketReader
  /** The URL of the parent that it leads to. */
  readonly parent?: string
}

export interface FarEndOptions {
  readonly dialer: Pick<Dialer, 'connect' | 'connectTls' | 'permitConfigured'>
  readonly buffers: ReadBuffers
  /** This hop, as it adds itself. */
  readonly via: Via
  /** Milliseconds that a parent has to answer a CONNECT. */
  readonly responseTimeoutMs: number
  /** Bytes of the head of that answer. */
  readonly headerBytes: number
}

/** Why no parent has made a tunnel, and how far it was. */
export class UnopenedTunnel extends Error {
  readonly error: ProxyError
  /** The URL of that parent. */
  readonly parent: string
  /** To it, when one stood. */
  readonly connection: Pick<Connection, 'where' | 'connectMs'> | undefined

  constructor(error: ProxyError, parent: string, connection: UnopenedTunnel['connection']) {
    super(error.message, { cause: error })
    this.error = error
    this.parent = parent
    this.connection = connection
  }
}

/**
 * Asks one parent after another, as nothing of the tunnel has been sent before one of them agrees. What says that the
 * request itself is refused (any answer but 2xx and 5xx), and an answer that does not come in time, end that.
 * @throws UnopenedTunnel with 502, 504, 403 or 508; ProxyError 508 before any is asked; the signal's reason when it aborts
 */
export async function openThroughParent(
  grant: Grant,
  parents: Parents,
  admitted: AdmittedExchange,
  options: FarEndOptions,
): Promise<FarEnd> {
  const { exchange } = admitted
  checkLoop(exchange.head.fields, options.via)
  const tried = new Set<Parent>()
  let last: UnopenedTunnel | undefined
  let told: UnopenedTunnel | undefined
  for (;;) {
    const parent = last === undefined || mayMove(last.error) ? parents.take(tried) : undefined
    if (parent === undefined) throw told ?? new TypeError('no parent at all')
    tried.add(parent)
    let connection: Connection | undefined
    try {
      const reached = await connectTo(parent, parents, exchange, options)
      connection = reached.connection
      return await askThrough(parent, reached, grant, admitted, options)
    } catch (error) {
      if (exchange.signal.aborted) throw error
      last = new UnopenedTunnel(explained(toProxyError(error), parent), parent.url, connection)
      // What one has answered says more than that another could not be reached.
      if (connection !== undefined || told?.connection === undefined) told = last
    }
  }
}

/** What another parent would not see otherwise. */
const FINAL = new Set(['parent_refused', 'parent_credentials', 'http_response_timeout'])

function mayMove({ side, reason }: ProxyError): boolean {
  return side === 'upstream' && !FINAL.has(reason)
}

async function askThrough(
  parent: Parent,
  { connection, reader }: Pick<FarEnd, 'connection' | 'reader'>,
  grant: Grant,
  admitted: AdmittedExchange,
  options: FarEndOptions,
): Promise<FarEnd> {
  const request = tunnelRequest(grant, admitted, options.via, parent.authorization)
  const head = await askForTunnel(connection, reader, request, {
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
  { dialer, buffers }: FarEndOptions,
): Promise<Pick<FarEnd, 'connection' | 'reader'>> {
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
    if (!signal.aborted && failure.side === 'upstream') parents.unreached(parent, failure)
    throw error
  }
  parents.reached(parent)
  return { connection, reader: secureContext === undefined ? reader : new StreamReader(connection.socket) }
}
