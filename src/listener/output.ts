/**
 * The response output of a connection: each response framed by its writer, on its way out of the socket. What is written
 * in one turn of the event loop leaves in one system call: small pieces are joined, large ones are handed over as they are.
 */
import type { Socket } from 'node:net'
import type { ResponseContent } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { ConnectionState } from '../http1/connection-state.js'
import { CHUNK_END, chunkHead } from '../http1/content-writer.js'
import { type ResponseContext, type ResponseHead, ResponseWriter } from '../http1/response-writer.js'
import { JoiningWriter, resetSocket } from '../tunnel/socket-writer.js'

/** What a connection is notified of. */
export interface ResponseEvents {
  /** The client has fallen behind with what was written. */
  congested(): void
  /** The response is complete. */
  responded(): void
  /** The response is not going to be complete: the connection has to be closed. */
  aborted(): void
}

type Piece = string | Uint8Array

/** Pieces below this are joined as text; a copy of so few bytes costs less than a buffer and a further system call. */
const JOIN_BELOW_BYTES = 16 * 1024

/** A settled promise runs its callback at the end of the turn, for less than queueMicrotask, which makes a resource. */
const SOON = Promise.resolve()
/** No large piece stands in the chunk that has been begun. */
const NO_PIECE = -1
/** Before the first one. */
const NO_REQUEST: ResponseContext = { method: '', minor: 1, persistent: false }

export class ResponseOutput implements ResponseContent {
  /** Bytes of content that were written for the response under way. */
  bytes = 0
  readonly #socket: Socket
  readonly #state: ConnectionState
  readonly #events: ResponseEvents
  readonly #writer = new ResponseWriter(NO_REQUEST)
  #muted = false
  /** What waits for the end of the turn: the large pieces with the text before each, and the text behind them. */
  #pieces: Piece[] = []
  /** Small pieces, joined as they come: one character a byte. */
  #text = ''
  /** The bytes of all of it. */
  #pending = 0
  #scheduled = false
  /** The text in front of the chunk that has been begun; undefined when none has been. */
  #beforeChunk: string | undefined
  /** How many bytes are in the chunk, and where among the pieces its head is to be. */
  #chunkBytes = 0
  #chunkAt = NO_PIECE
  /** What joins pieces behind those that the system has not taken; made for the first client that falls behind. */
  #joining: JoiningWriter | undefined
  #drainCallbacks: (() => void)[] = []

  /** @param state whose response half is kept here */
  constructor(socket: Socket, state: ConnectionState, events: ResponseEvents) {
    this.#socket = socket
    this.#state = state
    this.#events = events
  }

  /** What follows answers another request. */
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

  /** Whether the client has fallen behind; the socket emits `drain` when it has caught up. */
  get congested(): boolean {
    return this.#pending + this.#socket.writableLength >= this.#socket.writableHighWaterMark
  }

  /** From now on the response says `Connection: close`. */
  mustClose(): void {
    this.#writer.mustClose()
  }

  /** The request has ended early: nothing of what its handler goes on to write is sent. */
  mute(): void {
    this.#muted = true
  }

  interim(status: number, reason: string, fields: Fields): void {
    this.#state.onResponse('interim')
    const head = this.#writer.interim(status, reason, fields)
    if (head !== '') this.#push(head)
  }

  /** The head of the final response. An error that comes before the request was read to its end ends the connection. */
  head(head: ResponseHead): void {
    if (head.status >= 400 && this.#state.request !== 'done') this.#writer.mustClose()
    this.#state.onResponse('head')
    this.#push(this.#writer.head(head))
  }

  /** Content in the chunked coding: that of one turn is one chunk, however small its pieces are (RFC 9112 §7.1). */
  write(chunk: Uint8Array): boolean {
    const bytes = chunk.length
    this.bytes += bytes
    if (this.#muted) return true
    const { framing } = this.#writer
    // A chunk of no bytes would end the content.
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

  /** A whole response, in place of what a handler may go on to write. */
  answer(head: ResponseHead, body: Uint8Array): void {
    const muted = this.#muted
    this.#muted = false
    this.head(head)
    this.write(body)
    this.end()
    // Otherwise another request may have begun by now.
    if (muted) this.#muted = true
  }

  /** In place of a response, what a client reads that does not speak HTTP. */
  otherProtocol(bytes: Uint8Array): void {
    this.#state.onResponse('head')
    this.#push(bytes)
    this.#state.onResponse('end')
    this.#events.responded()
  }

  /** The head behind which the connection is not HTTP any more; no turn is waited for, as nothing can follow. */
  switching(status: number, reason: string, fields: Fields, upgrade: string | undefined): void {
    this.#state.onResponse('switch')
    const head = this.#writer.switchingHead(status, reason, fields, upgrade)
    this.#text += head
    this.#pending += head.length
    this.flush()
  }

  /** Hands everything to the socket now, whatever that waits for. */
  flush(): void {
    this.#handOver()
    this.#joining?.flush()
  }

  /** Closes the connection at once; where that would mark the end of content that is not whole, with a reset. */
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

  /** Puts the head of the chunk that was begun, if one was, in front of it, as its size is known now. */
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

  /** Hands everything to the socket, or to what joins it behind what the client has not taken yet. */
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
    // Nothing waits: it goes straight to the system.
    if (this.#joining === undefined && socket.writableLength === 0) {
      if (typeof piece === 'string') socket.write(piece, 'latin1')
      else socket.write(piece)
      return
    }
    this.#joining ??= new JoiningWriter(socket)
    this.#joining.write(piece)
  }
}
