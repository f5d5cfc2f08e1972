/** One end of a real socket, used in bytes: text has one character for each byte. */
import '../every-test.js'
import type { Test } from 'tap'
import { connect, type Socket } from 'node:net'
import { Changes, DEADLINE_MS, until } from '../until.js'

export class RawPeer {
  readonly socket: Socket
  #received = ''
  #ended = false
  #error: NodeJS.ErrnoException | undefined
  #closed = false
  readonly #changes = new Changes()

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1')
      this.#changes.notify()
    })
    socket.on('end', () => {
      this.#ended = true
      this.#changes.notify()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#error = error
      this.#changes.notify()
    })
    socket.on('close', () => {
      this.#closed = true
      this.#changes.notify()
    })
  }

  /** Everything received and not consumed. */
  get received(): string {
    return this.#received
  }

  write(bytes: string | Uint8Array): void {
    if (typeof bytes === 'string') this.socket.write(bytes, 'latin1')
    else this.socket.write(bytes)
  }

  /** Sends FIN. */
  end(): void {
    this.socket.end()
  }

  /** Sends RST. */
  reset(): void {
    this.socket.resetAndDestroy()
  }

  /** Consumes up to and including `mark` (a text, or a number of bytes); rejects when the connection ends before it. */
  async until(mark: string | number, deadlineMs = DEADLINE_MS): Promise<string> {
    return this.#until(
      `${JSON.stringify(mark)} to be received`,
      () => {
        const at = typeof mark === 'number' ? mark : this.#received.indexOf(mark) + mark.length
        const found = typeof mark === 'number' ? this.#received.length >= mark : at >= mark.length
        if (found) {
          const taken = this.#received.slice(0, at)
          this.#received = this.#received.slice(at)
          return taken
        }
        if (!this.#ended && !this.#closed) return undefined
        throw new Error(
          `connection ended before ${JSON.stringify(mark)}; received ${JSON.stringify(this.#received)}`,
        )
      },
      deadlineMs,
    )
  }

  /** Everything until FIN or the end of the connection. */
  async untilEnd(): Promise<string> {
    await this.#until('the end of the connection', () => this.#ended || this.#closed)
    const taken = this.#received
    this.#received = ''
    return taken
  }

  /** How the connection ended: by FIN, or by a reset. */
  async outcome(): Promise<'end' | 'reset'> {
    await this.#until('the end of the connection', () => this.#ended || this.#closed)
    return this.#error !== undefined ? 'reset' : 'end'
  }

  /** Resolves when the socket is closed on both sides. */
  async closed(): Promise<void> {
    await this.#until('the connection to be closed', () => this.#closed)
  }

  destroy(): void {
    this.socket.destroy()
  }

  #until<T>(what: string, look: () => T | false | undefined, deadlineMs = DEADLINE_MS): Promise<T> {
    const seen = () => ({
      received: this.#received,
      ended: this.#ended,
      closed: this.#closed,
      error: this.#error?.code,
    })
    return until(what, look, { changes: this.#changes, seen, deadlineMs })
  }
}

/** A client connected to a port on 127.0.0.1, destroyed with the test. */
/** @param localAddress its own address, for a client of its own */
export async function rawClient(t: Test, port: number, localAddress = '127.0.0.1'): Promise<RawPeer> {
  const socket = connect({ host: '127.0.0.1', port, localAddress, allowHalfOpen: true, noDelay: true })
  const peer = new RawPeer(socket)
  t.teardown(() => peer.destroy())
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  return peer
}
