/** The way back to the client: responses framed by the writer, on their way out of the socket. */
import type { Socket } from 'node:net'
import type { Fields } from '../http/fields.js'
import type { ConnectionState } from '../http1/connection-state.js'
import { type ResponseContext, type ResponseHead, ResponseWriter } from '../http1/response-writer.js'
import { resetSocket } from '../tunnel/socket-writer.js'
import { Output } from './output.js'

export class ResponseSide {
  readonly #socket: Socket
  readonly #state: ConnectionState
  readonly #output: Output
  #writer = new ResponseWriter({ method: '', minor: 1, persistent: false })
  #drainCallbacks: (() => void)[] = []

  /** @param state whose response half is kept here */
  constructor(socket: Socket, state: ConnectionState) {
    this.#socket = socket
    this.#state = state
    this.#output = new Output(socket)
  }

  /** What follows answers another request. */
  begin(context: ResponseContext): void {
    this.#state.onResponse('owe')
    this.#writer = new ResponseWriter(context)
  }

  get closes(): boolean {
    return this.#writer.closes
  }

  /** Ends the connection at once; where that would mark the end of content that is not whole, with a reset. */
  destroy(): void {
    if (this.#writer.untilClose && !this.#socket.writableFinished) resetSocket(this.#socket)
    else this.#socket.destroy()
  }

  /** Whether the client has fallen behind. */
  get congested(): boolean {
    return this.#output.congested
  }

  mustClose(): void {
    this.#writer.mustClose()
  }

  interim(status: number, reason: string, fields: Fields): void {
    this.#state.onResponse('interim')
    this.#output.write(this.#writer.interim(status, reason, fields))
  }

  head(head: ResponseHead): void {
    this.#state.onResponse('head')
    this.#output.write(this.#writer.head(head))
  }

  data(chunk: Uint8Array): void {
    if (!this.#writer.hasContent || chunk.length === 0) return
    this.#writer.count(chunk.length)
    if (this.#writer.isChunked) this.#output.writeChunked(chunk)
    else this.#output.write(chunk)
  }

  end(trailers: Fields): void {
    this.#output.write(this.#writer.end(trailers))
    this.#state.onResponse('end')
  }

  /** The head behind which the connection is not HTTP any more; written out at once. */
  switching(status: number, reason: string, fields: Fields, upgrade: string | undefined): void {
    this.#state.onResponse('switch')
    this.#output.writeLast(this.#writer.switchingHead(status, reason, fields, upgrade))
  }

  flush(): void {
    this.#output.flush()
  }

  /** Calls back when the client has caught up. */
  onDrain(callback: () => void): void {
    this.#drainCallbacks.push(callback)
    this.#output.handOver()
    if (!this.#socket.writableNeedDrain) queueMicrotask(() => this.drained())
  }

  /** The socket has written everything. */
  drained(): void {
    for (const callback of this.#drainCallbacks.splice(0)) callback()
  }
}
