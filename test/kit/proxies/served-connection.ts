/** A Connection on a real socket, with a clock that the test controls and exchanges that the test answers. */
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import type { ProxyError } from '../../../src/errors.js'
import {
  Connection,
  type ConnectionLimits,
  type ConnectionSettings,
} from '../../../src/listener/connection.js'
import type { ReceivedExchange } from '../../../src/pipeline/admitted-exchange.js'
import { connectedPair } from '../peers/connected-pair.js'
import { untilRead } from '../peers/until-read.js'
import { ManualClock } from '../fakes/manual-clock.js'
import { A_PLACE } from '../fakes/no-limits.js'
import type { RawPeer } from '../peers/raw-peer.js'

export const LIMITS: ConnectionLimits = {
  headerTimeoutMs: 1000,
  bodyIdleMs: 30_000,
  bodyMinRate: 1024,
  keepaliveIdleMs: 60_000,
  headerBytes: 1 << 20,
  headerFields: 100,
  targetBytes: 8192,
}

export class ServedConnection {
  readonly clock = new ManualClock()
  readonly exchanges: ReceivedExchange[] = []
  readonly refusals: [method: string, target: string, error: ProxyError][] = []
  isReleased = false
  readonly client: RawPeer
  /** The server's end of the client's socket. */
  readonly socket: Socket
  readonly connection: Connection
  readonly #settings: ConnectionSettings

  constructor(client: RawPeer, socket: Socket, answer: (exchange: ReceivedExchange) => void) {
    this.client = client
    this.socket = socket
    this.#settings = {
      limits: LIMITS,
      extraMethods: [],
      draining: false,
      now: this.clock.now,
      date: () => 'today',
      nextId: () => 'id',
      serve: exchange => {
        this.exchanges.push(exchange)
        answer(exchange)
        // Nothing reports exchanges here.
        exchange.reported()
      },
    }
    this.connection = new Connection(socket, { address: '127.0.0.1', slot: A_PLACE }, this.#settings, {
      malformed: (_clientAddress, method, target, error) => this.refusals.push([method, target, error]),
      released: () => {
        this.isReleased = true
      },
    })
  }

  /** Waits until the server has read everything that the client wrote. */
  arrived(): Promise<void> {
    return untilRead(this.client.socket, this.socket)
  }

  /** Advances the clock, and checks the deadline. */
  pass(ms: number): void {
    this.clock.advance(ms)
    this.connection.checkDeadline(this.clock.now())
  }

  /** Drains it together with the whole proxy. */
  drain(): void {
    this.connection.configure({ ...this.#settings, draining: true })
    this.connection.drain()
  }
}

/** @param answer receives each exchange; without it the test answers them itself */
export async function servedConnection(
  t: Test,
  answer: (exchange: ReceivedExchange) => void = () => {},
): Promise<ServedConnection> {
  const { client, socket } = await connectedPair(t, { allowHalfOpen: true, noDelay: true })
  return new ServedConnection(client, socket, answer)
}

/** Answers with this many bytes of content. */
export function answerWith(bytes: number): (exchange: ReceivedExchange) => void {
  const body = Buffer.alloc(bytes, 'x')
  return exchange => {
    const content = exchange.respond({ status: 200, reason: 'OK', fields: [], contentLength: bytes })
    content.write(body)
    content.end()
  }
}
