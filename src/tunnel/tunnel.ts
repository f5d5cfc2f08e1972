/**
 * CONNECT: a tunnel to the authority that was asked for (RFC 9110 §9.3.6).
 *
 * The connection is made first and the 2xx sent after it, without Transfer-Encoding and without Content-Length; from
 * then on bytes are passed both ways unchanged. A failure is an ordinary error response: 403, 502 or 504.
 */
import type { Socket } from 'node:net'
import { ProxyError, type ProxyErrorType, toProxyError } from '../errors.js'
import type { Exchange, Switched } from '../exchange.js'
import type { Host } from '../http/authority.js'
import type { CloseReason, Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import { Pump, type PumpLimits, type PumpRegistry } from '../relay/pump.js'
import { BufferedReader, type ReadBuffers } from '../relay/read-buffer.js'
import type { Connection, Dialer } from '../upstream/dial.js'
import { type VerifiedResult, VerifiedTunnel } from './server-name.js'

export interface TunnelOptions {
  readonly dialer: Dialer
  readonly limits: PumpLimits
  /** Milliseconds that a TLS hello has, where the policy asks for one. */
  readonly helloTimeoutMs: number
  readonly buffers: ReadBuffers
  readonly pumps: PumpRegistry
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

const NOTHING = Buffer.alloc(0)

/** @returns what became of the tunnel, once it is closed */
export async function tunnel(exchange: Exchange, permit: Permit, options: TunnelOptions): Promise<Outcome> {
  const reader = new BufferedReader(options.buffers)
  let connection: Connection
  try {
    connection = await options.dialer.connect(permit, exchange.signal, () => reader.onRead)
  } catch (error) {
    if (exchange.signal.aborted) return failure('client_gone')
    return failure('failed', connectFailure(toProxyError(error)))
  }
  const { socket, connectMs } = connection
  if (exchange.signal.aborted) {
    socket.destroy()
    return failure('client_gone')
  }
  const switched = exchange.switchTo(200, 'Connection established', [])
  const running = permit.grant.verifyServerName
    ? verified(switched, socket, reader, permit.grant.host, options)
    : startPump(switched.socket, switched.rest, socket, reader, NOTHING, options.limits, options)
  options.pumps.add(running, exchange, connection.address.text)
  const result: VerifiedResult = await running.finished
  const outcome: Outcome = {
    handler: 'tunnel',
    status: 200,
    closeReason: result.reason,
    bytesUp: result.bytesUp,
    bytesDown: result.bytesDown,
    address: connection.where,
    connectMs,
  }
  return result.refusal === undefined ? outcome : { ...outcome, serverName: result.refusal }
}

function startPump(
  client: Socket,
  fromClient: Buffer,
  upstream: Socket,
  reader: BufferedReader,
  fromUpstream: Buffer,
  limits: PumpLimits,
  { now, buffers }: TunnelOptions,
): Pump {
  return new Pump(
    { socket: client, early: [fromClient] },
    { socket: upstream, reader, early: [fromUpstream] },
    limits,
    now,
    () => new BufferedReader(buffers),
  )
}

function verified(
  switched: Switched,
  upstream: Socket,
  reader: BufferedReader,
  host: Host,
  options: TunnelOptions,
): VerifiedTunnel {
  return new VerifiedTunnel(switched, upstream, reader, {
    host,
    limits: options.limits,
    helloTimeoutMs: options.helloTimeoutMs,
    now: options.now,
    startPump: (fromClient, fromUpstream, limits) =>
      startPump(switched.socket, fromClient, upstream, reader, fromUpstream, limits, options),
  })
}

function failure(closeReason: CloseReason, error?: ProxyError): Outcome {
  const base = { handler: 'tunnel', closeReason, bytesUp: 0, bytesDown: 0 } as const
  return error === undefined ? { ...base, status: 0 } : { ...base, status: error.status, error }
}

/** A failed CONNECT is 403, 502 or 504 and nothing else: what these errors are then, which have another status. */
const CONNECT_STATUS: Partial<Record<ProxyErrorType, number>> = {
  proxy_loop_detected: 403,
  connection_limit_reached: 502,
}

/** The error as a CONNECT answers it. */
export function connectFailure(error: ProxyError): ProxyError {
  const status = CONNECT_STATUS[error.type]
  if (status === undefined) return error
  return new ProxyError(error.type, error.message, {
    status,
    reason: error.reason,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    cause: error,
  })
}
