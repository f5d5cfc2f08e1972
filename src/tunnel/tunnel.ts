/**
 * Handles CONNECT: opens a tunnel to the requested authority (RFC 9110 §9.3.6).
 *
 * The 2xx is sent after the connection has been established, without Transfer-Encoding and Content-Length; from then on
 * bytes are copied both ways unchanged. A failure is an ordinary error response: 403, 502 or 504.
 */
import { type ProxyError, type ProxyErrorType, toProxyError } from '../errors.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { Exchange, Switched } from '../exchange.js'
import type { Host } from '../http/authority.js'
import { keyOfReason } from '../limits/client-limits.js'
import { Outcome } from '../outcome.js'
import type { Grant, Permit } from '../policy/permit.js'
import type { Parents } from '../upstream/parents.js'
import { Pump, type OpenTunnels, type RunningPump } from './pump.js'
import { BufferedReader } from './socket-reader.js'
import {
  type TunnelUpstream,
  type TunnelUpstreamOptions,
  openThroughParent,
  ParentTunnelError,
} from './parent-tunnel.js'
import { type VerifiedResult, VerifiedTunnel } from './server-name.js'

export interface TunnelOptions extends TunnelUpstreamOptions {
  /** Milliseconds for a ClientHello, if the policy requires one. */
  readonly headerTimeoutMs: number
  readonly tunnels: OpenTunnels
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

const NOTHING = Buffer.alloc(0)

/**
 * @param upstream the vetted addresses of the grant's host, or the parent proxies through which it is reached
 * @returns the outcome of the tunnel, once that is closed
 */
export async function tunnel(
  admitted: AdmittedExchange,
  grant: Grant,
  upstream: Permit | Parents,
  options: TunnelOptions,
): Promise<Outcome> {
  const { exchange } = admitted
  let farEnd: TunnelUpstream
  try {
    if ('take' in upstream) farEnd = await openThroughParent(grant, upstream, admitted, options)
    else {
      const reader = new BufferedReader(options.buffers)
      farEnd = { connection: await options.dialer.connect(upstream, exchange.signal, reader.onRead), reader }
    }
  } catch (error) {
    return unopened(error, exchange)
  }
  if (exchange.aborted !== undefined) {
    farEnd.connection.socket.destroy()
    return Outcome.aborted('tunnel', exchange.aborted)
  }
  const result = await begin(admitted, grant, farEnd, options).finished
  return closed(farEnd, result, keyOfReason(result.reason, admitted.limits))
}

/** The outcome of a tunnel that could not be opened. */
function unopened(error: unknown, { aborted }: Exchange): Outcome {
  if (aborted !== undefined) return Outcome.aborted('tunnel', aborted)
  if (!(error instanceof ParentTunnelError))
    return Outcome.failed('tunnel', connectFailure(toProxyError(error)))
  const { parent, connection } = error
  const reached = connection && { address: connection.where, connectMs: connection.connectMs }
  const measured = { bytesUp: 0, bytesDown: 0, parent, ...reached }
  return Outcome.failed('tunnel', connectFailure(error.error), measured)
}

/** Sends the 2xx, and starts to copy bytes. */
function begin(
  admitted: AdmittedExchange,
  grant: Grant,
  farEnd: TunnelUpstream,
  options: TunnelOptions,
): RunningPump {
  const { address, connectMs } = farEnd.connection
  const switched = admitted.exchange.switchTo(200, 'Connection established', [])
  const running = grant.verifyServerName
    ? verified(switched, farEnd, grant.host, options)
    : startPump(switched, switched.rest, farEnd, NOTHING, options)
  const upstream = { address: address.text, parent: farEnd.parent, completed: grant.completed, connectMs }
  options.tunnels.open(running, admitted, upstream)
  return running
}

/**
 * The outcome of a tunnel that is closed.
 * @param limit the key of the limit that closed it, if one did
 */
function closed(
  { connection, parent }: TunnelUpstream,
  result: VerifiedResult,
  limit: string | undefined,
): Outcome {
  const { reason, bytesUp, bytesDown, refusal } = result
  const reached = { bytesUp, bytesDown, address: connection.where, connectMs: connection.connectMs }
  const named = parent === undefined ? reached : { ...reached, parent }
  const measured = limit === undefined ? named : { ...named, limit }
  return Outcome.complete(
    'tunnel',
    200,
    refusal === undefined ? measured : { ...measured, serverName: refusal },
    reason,
  )
}

function startPump(
  { socket }: Switched,
  fromClient: Buffer,
  { connection, reader }: TunnelUpstream,
  fromUpstream: Buffer,
  { now, buffers }: TunnelOptions,
): Pump {
  return new Pump(
    { socket, early: [fromClient] },
    { socket: connection.socket, reader, early: [fromUpstream] },
    now,
    () => new BufferedReader(buffers),
  )
}

function verified(
  switched: Switched,
  farEnd: TunnelUpstream,
  host: Host,
  options: TunnelOptions,
): VerifiedTunnel {
  return new VerifiedTunnel(switched, farEnd.connection.socket, farEnd.reader, {
    host,
    headerTimeoutMs: options.headerTimeoutMs,
    now: options.now,
    startPump: (fromClient, fromUpstream) => startPump(switched, fromClient, farEnd, fromUpstream, options),
  })
}

/** A failed CONNECT is always 403, 502 or 504: the status for errors that usually have another one. */
const CONNECT_STATUS: Partial<Record<ProxyErrorType, number>> = {
  proxy_loop_detected: 403,
  connection_limit_reached: 502,
}

/** The error for the response to a CONNECT, with one of the statuses that it may have. */
export function connectFailure(error: ProxyError): ProxyError {
  const status = CONNECT_STATUS[error.type]
  return status === undefined ? error : error.with({ status, cause: error })
}
