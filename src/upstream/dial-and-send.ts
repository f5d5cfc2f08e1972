/** A request for which no open connection serves: dials, sends, and can be ended at any time between. */
import { serializeHostPort } from '../http/authority.js'
import type { Permit } from '../policy/permit.js'
import type { Connection, Connects } from './dial.js'
import { upstreamFailure } from './failures.js'
import type { Cancel, UpstreamEvents } from './sender.js'

/** @param send puts the request on the new connection */
export function dialAndSend(
  dialer: Connects,
  permit: Permit,
  events: UpstreamEvents,
  send: (connection: Connection) => Cancel,
): Cancel {
  const controller = new AbortController()
  let cancel: Cancel = () => controller.abort()
  dialer.connect(permit, controller.signal).then(
    connection => {
      if (controller.signal.aborted) {
        connection.socket.destroy()
        return
      }
      events.connected(connection.where, connection.connectMs)
      cancel = send(connection)
    },
    (error: unknown) => {
      if (controller.signal.aborted) return
      const { host, port } = permit.grant
      events.failed(upstreamFailure(error, serializeHostPort(host, port)), 'no')
    },
  )
  return () => cancel()
}
