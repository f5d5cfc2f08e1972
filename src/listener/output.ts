/**
 * The responses of a connection: frames each and writes it to the socket. Everything written in one turn of the event
 * loop is sent in one system call: small pieces are joined, large ones are passed on without a copy.
 */
import type { Socket } from 'node:net'
import type { ResponseContent } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { ConnectionState } from '../http1/connection-state.js'
import { CHUNK_END, chunkHead } from '../http1/content-writer.js'
import { type ResponseContext, type ResponseHead, ResponseWriter } from '../http1/response-writer.js'
import { JoiningWriter, resetSocket } from '../tunnel/socket-writer.js'

/** Events for the connection. */
export interface ResponseEvents {
  /** The client does not keep up with what was written. */
  congested(): void
  /** The response is complete. */
  responded(): void
  /** The response will not be completed: the connection must be closed. */
  aborted(): void
}

type Piece = string | Uint8Array

/** Shorter pieces are joined as text; such a copy costs less than a buffer and a further system call. */
const JOIN_BELOW_BYTES = 16 * 1024

/**
 * The callback of a settled promise runs at the end of the turn; queueMicrotask costs more, as it allocates a resource.
 */
const SOON = Promise.resolve()
/** No large piece is in the current chunk. */
const NO_PIECE = -1
/** Before the first request. */
const NO_REQUEST: ResponseContext = { method: '', minor: 1, persistent: false }

export class ResponseOutput implements ResponseContent {
  /** Bytes of content written for the current response. */
  bytes = 0
  readonly #socket: Socket
  readonly #state: ConnectionState
  readonly #events: ResponseEvents
  readonly #writer = new ResponseWriter(NO_REQUEST)
  #muted = false
  /** What is sent at the end of the turn: the large pieces, each with the text before it; #text comes after them. */
  #pieces: Piece[] = []
  /** Small pieces, joined as they are written: one character for each byte. */
  #text = ''
  /** Length of all of it in bytes. */
  #pending = 0
  #scheduled = false
  /** The text before the current chunk; undefined when there is none. */
  #beforeChunk: string | undefined
  /** Length of the chunk in bytes, and the index in #pieces where its head belongs. */
  #chunkBytes = 0
  #chunkAt = NO_PIECE
  /** Joins pieces that the system has not accepted yet; created when the client first does not keep up. */
  #joining: JoiningWriter | undefined
  #drainCallbacks: (() => void)[] = []

  /** @param state of the connection; its response half is updated here */
  constructor(socket: Socket, state: ConnectionState, events: ResponseEvents) {
    this.#socket = socket
    this.#state = state
    this.#events = events
  }

  /** Begins the response to another request. */
  begin(context: ResponseContext): void {
    this.#state.onResponse('owe')
    this.#writer.begin(context)
    this.#muted = false
    this.bytes = 0
  }

  /** Whether the connection has to close after this response. */
  get closes(): boolean {
    return this.#writer.closes
  }

  /** Whether the client does not keep up; the socket emits `drain` when it has caught up. */
  get congested(): boolean {
    return this.#pending + this.#socket.writableLength >= this.#socket.writableHighWaterMark
  }

  /** Makes the response say `Connection: close`. */
  mustClose(): void {
    this.#writer.mustClose()
  }

  /** The request has ended early: what its handler still writes is not sent. */
  mute(): void {
    this.#muted = true
  }

  interim(status: number, reason: string, fields: Fields): void {
    this.#state.onResponse('interim')
    const head = this.#writer.interim(status, reason, fields)
    if (head !== '') this.#push(head)
  }

  /** Writes the final head. An error before the request was read to its end also ends the connection. */
  head(head: ResponseHead): void {
    if (head.status >= 400 && this.#state.request !== 'done') this.#writer.mustClose()
    this.#state.onResponse('head')
    this.#push(this.#writer.head(head))
  }

  /**
   * Writes content. In the chunked coding, that of one turn forms one chunk however small its pieces are (RFC 9112
   * §7.1).
   */
  write(chunk: Uint8Array): boolean {
    const bytes = chunk.length
    this.bytes += bytes
    if (this.#muted) return true
    const { framing } = this.#writer
    // An empty chunk would end the content.
    if (bytes > 0 && framing !== 'none') {
      this.#writer.count(bytes)
      if (framing === 'chunked') {
        if (this.#beforeChunk === undefined) this.#beginChunk()
        this.#chunkBytes += bytes
      }
      this.#push(chunk)
    }
    if (!this.congested) return true
    this.#events.congested()
    return false
  }

  /** Calls back when the client has caught up. */
  onDrain(callback: () => void): void {
    if (this.#muted) return
    this.#drainCallbacks.push(callback)
    this.#handOver()
    if (!this.#socket.writableNeedDrain) queueMicrotask(() => this.drained())
  }

  /** The socket has written everything. */
  drained(): void {
    for (const callback of this.#drainCallbacks.splice(0)) callback()
  }

  end(trailers: Fields = []): void {
    if (this.#muted) return
    if (!this.#writer.isComplete) {
      const end = this.#writer.end(trailers)
      this.#endChunk()
      this.#push(end)
    }
    this.#state.onResponse('end')
    this.#events.responded()
  }

  abort(): void {
    if (!this.#muted) this.#events.aborted()
  }

  /** Sends a complete response instead of what a handler may still write. */
  answer(head: ResponseHead, body: Uint8Array): void {
    const muted = this.#muted
    this.#muted = false
    this.head(head)
    this.write(body)
    this.end()
    // `end` may have begun the next request, unless this one was muted.
    if (muted) this.#muted = true
  }

  /** Sends the refusal of another protocol to a client that does not use HTTP, instead of a response. */
  otherProtocol(bytes: Uint8Array): void {
    this.#state.onResponse('head')
    this.#push(bytes)
    this.#state.onResponse('end')
    this.#events.responded()
  }

  /** Writes the head after which the connection is no longer HTTP; at once, as nothing can follow. */
  switching(status: number, reason: string, fields: Fields, upgrade: string | undefined): void {
    this.#state.onResponse('switch')
    const head = this.#writer.switchingHead(status, reason, fields, upgrade)
    this.#text += head
    this.#pending += head.length
    this.flush()
  }

  /** Passes everything to the socket now. */
  flush(): void {
    this.#handOver()
    this.#joining?.flush()
  }

  /** Closes the connection at once; with a reset if a FIN would mark the end of incomplete content. */
  destroy(): void {
    if (this.#writer.untilClose && !this.#socket.writableFinished) resetSocket(this.#socket)
    else this.#socket.destroy()
  }

  #push(piece: Piece): void {
    this.#pending += piece.length
    if (typeof piece === 'string') this.#text += piece
    else if (piece.length >= JOIN_BELOW_BYTES) this.#pushLarge(piece)
    else this.#text += (piece instanceof Buffer ? piece : Buffer.from(piece)).toString('latin1')
    if (this.#scheduled) return
    this.#scheduled = true
    void SOON.then(this.#handOver)
  }

  #pushLarge(piece: Uint8Array): void {
    if (this.#beforeChunk !== undefined && this.#chunkAt === NO_PIECE)
      this.#chunkAt = this.#pieces.push('') - 1
    if (this.#text !== '') this.#pieces.push(this.#text)
    this.#text = ''
    this.#pieces.push(piece)
  }

  #beginChunk(): void {
    this.#beforeChunk = this.#text
    this.#text = ''
  }

  /** Inserts the head of the current chunk, if there is one, before it, as its size is known now. */
  #endChunk(): void {
    if (this.#beforeChunk === undefined) return
    const head = chunkHead(this.#chunkBytes)
    const before = this.#beforeChunk + head
    if (this.#chunkAt === NO_PIECE) this.#text = before + this.#text
    else this.#pieces[this.#chunkAt] = before
    this.#text += CHUNK_END
    this.#pending += head.length + CHUNK_END.length
    this.#beforeChunk = undefined
    this.#chunkBytes = 0
    this.#chunkAt = NO_PIECE
  }

  /** Passes everything to the socket, or to the writer that joins it with what the client has not accepted yet. */
  readonly #handOver = (): void => {
    this.#scheduled = false
    if (this.#beforeChunk !== undefined) this.#endChunk()
    if (this.#pending === 0) return
    const pieces = this.#pieces
    const text = this.#text
    const socket = this.#socket
    this.#text = ''
    this.#pending = 0
    if (pieces.length > 0) {
      this.#pieces = []
      if (text !== '') pieces.push(text)
    }
    if (!socket.writable) return
    if (pieces.length > 1) {
      this.#joining ??= new JoiningWriter(socket)
      this.#joining.writeTogether(pieces)
      return
    }
    const piece = pieces[0] ?? text
    // Nothing is queued: the piece goes to the system at once.
    if (this.#joining === undefined && socket.writableLength === 0) {
      if (typeof piece === 'string') socket.write(piece, 'latin1')
      else socket.write(piece)
      return
    }
    this.#joining ??= new JoiningWriter(socket)
    this.#joining.write(piece)
  }
}
