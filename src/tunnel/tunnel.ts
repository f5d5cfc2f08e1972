/**
 * CONNECT: a tunnel to the authority that was asked for (RFC 9110 §9.3.6).
 *
 * The connection is made first and the 2xx sent after it, without Transfer-Encoding and without Content-Length; from
 * then on bytes are passed both ways unchanged. A failure is an ordinary error response: 403, 502 or 504.
 */
import { ProxyError, toProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { CloseReason, Outcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'
import { type PumpLimits, startPump } from '../relay/pump.js'
import { BufferedReader, type ReadBuffers } from '../relay/read-buffer.js'
import type { PumpRegistry } from '../relay/relay.js'
import type { Connection, Dialer } from '../upstream/dial.js'

export interface TunnelOptions {
  readonly dialer: Dialer
  readonly limits: PumpLimits
  readonly buffers: ReadBuffers
  readonly pumps: PumpRegistry
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
  const pump = startPump({
    client: switched.socket,
    upstream: socket,
    reader,
    fromClient: switched.rest,
    limits: options.limits,
  })
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

/** A CONNECT that leads back to the proxy is refused like any other that may not be made: a failed one has no 508. */
export function connectFailure(error: ProxyError): ProxyError {
  if (error.type !== 'proxy_loop_detected') return error
  return new ProxyError(error.type, error.message, {
    status: 403,
    reason: error.reason,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    cause: error,
  })
}
