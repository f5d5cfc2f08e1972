/**
 * One attempt to send a request: it looks at an idle connection or dials a new one, and then sends. It can be cancelled
 * at any time, also by what is called back while one of these begins.
 */
import type { Socket } from 'node:net'
import { serializeHostPort } from '../http/authority.js'
import type { Permit } from '../policy/permit.js'
import type { Connection, Connects } from './dial.js'
import { upstreamFailure } from './failures.js'
import type { Cancel, UpstreamEvents } from './sender.js'

/** What of a pooled connection an attempt has to know. */
export interface IdleConnection {
  readonly socket: Socket
  /** `address:port`. */
  readonly where: string
}

export class Attempt {
  #cancelled = false
  #cancelStage: Cancel = () => {}

  /** Ends the stage that is under way; when one is just beginning, as soon as it has begun. */
  readonly cancel: Cancel = () => {
    if (this.#cancelled) return
    this.#cancelled = true
    this.#cancelStage()
  }

  /**
   * Dials, and sends on the new connection.
   * @param send puts the request on the connection
   */
  dial(dialer: Connects, permit: Permit, events: UpstreamEvents, send: (to: Connection) => Cancel): void {
    this.#begin(() => {
      const controller = new AbortController()
      dialer.connect(permit, controller.signal).then(
        connection => {
          if (this.#cancelled) {
            connection.socket.destroy()
            return
          }
          this.#begin(() => {
            events.connected(connection.where, connection.connectMs)
            return send(connection)
          })
        },
        (error: unknown) => {
          if (this.#cancelled) return
          const { host, port } = permit.grant
          events.failed(upstreamFailure(error, serializeHostPort(host, port)), 'never')
        },
      )
      return () => controller.abort()
    })
  }

  /**
   * Sends on a connection that was idle, unless it turns out to have ended.
   *
   * What has arrived on it by now has to be read first: its end, because what is sent may not be sent twice, or bytes
   * that nobody asked for, which would be taken for the answer. Two turns see to that, as the first may be over before
   * the system is asked again what there is to read.
   * @param send puts the request on the connection
   * @param otherwise called when the connection has ended
   * @param giveBack called when it is cancelled before anything was sent
   */
  reuse(
    idle: IdleConnection,
    events: UpstreamEvents,
    send: () => Cancel,
    otherwise: () => void,
    giveBack: () => void,
  ): void {
    this.#begin(() => {
      let turn = setImmediate(() => {
        turn = setImmediate(() => {
          if (idle.socket.destroyed) {
            otherwise()
            return
          }
          this.#begin(() => {
            events.connected(idle.where, undefined)
            return send()
          })
        })
      })
      return () => {
        clearImmediate(turn)
        giveBack()
      }
    })
  }

  #begin(stage: () => Cancel): void {
    if (this.#cancelled) return
    this.#cancelStage = () => {}
    const cancel = stage()
    this.#cancelStage = cancel
    if (this.#cancelled) cancel()
  }
}
