/**
 * CONNECT: a tunnel to the authority that was asked for (RFC 9110 §9.3.6).
 *
 * The connection is made first and the 2xx sent after it, without Transfer-Encoding and without Content-Length; from
 * then on bytes are passed both ways unchanged. A failure is an ordinary error response: 403, 502 or 504.
 */
import { ProxyError, type ProxyErrorType, toProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { CloseReason, Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import { Pump, type PumpLimits, type PumpRegistry } from '../relay/pump.js'
import { BufferedReader, type ReadBuffers } from '../relay/read-buffer.js'
import type { Connection, Dialer } from '../upstream/dial.js'

export interface TunnelOptions {
  readonly dialer: Dialer
  readonly limits: PumpLimits
  readonly buffers: ReadBuffers
  readonly pumps: PumpRegistry
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

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
  const pump = new Pump(
    { socket: switched.socket, early: [switched.rest] },
    { socket, reader, early: [] },
    options.limits,
    options.now,
    () => new BufferedReader(options.buffers),
  )
  options.pumps.add(pump)
  const { bytesUp, bytesDown, reason } = await pump.finished
  const address = connection.where
  return {
    handler: 'tunnel',
    status: 200,
    closeReason: reason,
    bytesUp,
    bytesDown,
    address,
    connectMs,
  }
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
