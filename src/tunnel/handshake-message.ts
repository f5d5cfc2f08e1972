/**
 * The first handshake message that one side of a TLS connection sends in plain text (RFC 8446 §4, §5.1).
 *
 * Records are read strictly, and a message may be spread over any number of them. What it means is for others to say.
 */
import { GrowableBuffer } from '../http1/growable-buffer.js'

export type HandshakeVerdict =
  | {
      readonly kind: 'message'
      /** Without the header of the message. */
      readonly body: Buffer
      /** Whether its last record ends with it. */
      readonly alone: boolean
    }
  | HandshakeFault

export interface HandshakeFault {
  readonly kind: 'fault'
  readonly fault: 'not_tls' | 'too_large'
}

export interface HandshakeOptions {
  /** The type that the message has to have. */
  readonly messageType: number
  /** Bytes of the message, headers of its records included. */
  readonly maxBytes: number
  /** Types of records that may stand before it and are not looked into. */
  readonly before?: readonly number[]
}

const RECORD_HEADER_BYTES = 5
const MESSAGE_HEADER_BYTES = 4
/** Content of one record (RFC 8446 §5.1), and of an encrypted one (§5.2). */
const MAX_FRAGMENT_BYTES = 2 ** 14
const MAX_ENCRYPTED_BYTES = 2 ** 14 + 256
/** Bytes of the records before the message. */
const MAX_BEFORE_BYTES = 64 * 1024

const HANDSHAKE_RECORD = 22
/** SSL 3.0 and every TLS begin their version with it. */
export const MAJOR_VERSION = 3

export const NOT_TLS: HandshakeFault = { kind: 'fault', fault: 'not_tls' }
const TOO_LARGE: HandshakeFault = { kind: 'fault', fault: 'too_large' }

/** Reads one message, however it is cut up, and holds all bytes that it was given. */
export class HandshakeReader {
  readonly #options: HandshakeOptions
  readonly #held = new GrowableBuffer()
  /** How many of the bytes held have been judged, and where among them the first record of the message begins. */
  #at = 0
  #begin = 0
  /** How much of the header of the record has been judged, and how much of its fragment has not. */
  #headerBytes = 0
  #fragmentLeft = 0
  /** Whether the record is one of those before the message. */
  #before = false
  /** How much of the message has been seen, and how long its header says that the rest of it is. */
  #messageBytes = 0
  #bodyLength = 0

  constructor(options: HandshakeOptions) {
    this.#options = options
  }

  /** Everything that was pushed, also what lies behind the message. */
  get held(): Buffer {
    return this.#held.all
  }

  /** Of these, the ones that led to the verdict. */
  get judged(): Buffer {
    return this.held.subarray(0, this.#at)
  }

  /** And the ones that came behind them. */
  get behind(): Buffer {
    return this.held.subarray(this.#at)
  }

  /**
   * Takes further bytes; none after a verdict.
   *
   * @returns the verdict, with the first byte that decides it; undefined when more bytes are needed
   */
  push(chunk: Uint8Array): HandshakeVerdict | undefined {
    this.#held.push(chunk)
    const { held } = this
    while (this.#at < held.length) {
      if (!this.#before && this.#at - this.#begin === this.#options.maxBytes) return TOO_LARGE
      const byte = held[this.#at++] ?? 0
      const verdict = this.#fragmentLeft === 0 ? this.#recordHeader(byte) : this.#fragment(byte)
      if (verdict !== undefined) return verdict
    }
    return undefined
  }

  #recordHeader(byte: number): HandshakeFault | undefined {
    this.#headerBytes += 1
    switch (this.#headerBytes) {
      case 1:
        this.#before = this.#messageBytes === 0 && this.#options.before?.includes(byte) === true
        return this.#before || byte === HANDSHAKE_RECORD ? undefined : NOT_TLS
      case 2:
        return byte === MAJOR_VERSION ? undefined : NOT_TLS
      case RECORD_HEADER_BYTES: {
        this.#headerBytes = 0
        this.#fragmentLeft = this.held.readUInt16BE(this.#at - 2)
        if (this.#before && this.#at + this.#fragmentLeft > MAX_BEFORE_BYTES) return TOO_LARGE
        const most = this.#before ? MAX_ENCRYPTED_BYTES : MAX_FRAGMENT_BYTES
        // Empty ones could go on for ever without a message ever coming.
        return this.#fragmentLeft >= 1 && this.#fragmentLeft <= most ? undefined : NOT_TLS
      }
      default:
        return undefined
    }
  }

  #fragment(byte: number): HandshakeVerdict | undefined {
    this.#fragmentLeft -= 1
    if (!this.#before) return this.#message(byte)
    if (this.#fragmentLeft === 0) {
      this.#before = false
      this.#begin = this.#at
    }
    return undefined
  }

  #message(byte: number): HandshakeVerdict | undefined {
    const { messageType, maxBytes } = this.#options
    this.#messageBytes += 1
    if (this.#messageBytes === 1) return byte === messageType ? undefined : NOT_TLS
    if (this.#messageBytes <= MESSAGE_HEADER_BYTES) this.#bodyLength = this.#bodyLength * 256 + byte
    if (this.#messageBytes < MESSAGE_HEADER_BYTES) return undefined
    if (RECORD_HEADER_BYTES + MESSAGE_HEADER_BYTES + this.#bodyLength > maxBytes) return TOO_LARGE
    if (this.#messageBytes < MESSAGE_HEADER_BYTES + this.#bodyLength) return undefined
    return { kind: 'message', body: this.#body(), alone: this.#fragmentLeft === 0 }
  }

  /** The message without its header, out of all its records. */
  #body(): Buffer {
    const { judged } = this
    const fragments: Buffer[] = []
    for (let at = this.#begin; at < this.#at; ) {
      const begin = at + RECORD_HEADER_BYTES
      at = begin + judged.readUInt16BE(begin - 2)
      fragments.push(judged.subarray(begin, at))
    }
    return Buffer.concat(fragments).subarray(MESSAGE_HEADER_BYTES)
  }
}
