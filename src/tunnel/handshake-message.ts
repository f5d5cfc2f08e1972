/**
 * Reads the first handshake message that one side of a TLS connection sends in plain text (RFC 8446 §4, §5.1).
 *
 * Records are parsed strictly; a message may be spread over any number of them. Its body is not parsed here.
 */
import { GrowableBuffer } from '../http1/growable-buffer.js'

export type HandshakeVerdict =
  | {
      readonly kind: 'message'
      /** The message without its header. */
      readonly body: Buffer
      /** Whether the message ends where its last record ends. */
      readonly endsRecord: boolean
    }
  | HandshakeFault

export interface HandshakeFault {
  readonly kind: 'fault'
  readonly fault: 'not_tls' | 'too_large'
}

export interface HandshakeOptions {
  /** The required type of the message. */
  readonly messageType: number
  /** Maximum bytes of the message, including the headers of its records. */
  readonly maxBytes: number
  /** Types of records that may precede it and are skipped. */
  readonly skippedTypes?: readonly number[]
}

const RECORD_HEADER_BYTES = 5
const MESSAGE_HEADER_BYTES = 4
/** Maximum content of a record (RFC 8446 §5.1), and of an encrypted record (§5.2). */
const MAX_FRAGMENT_BYTES = 2 ** 14
const MAX_ENCRYPTED_BYTES = 2 ** 14 + 256
/** Maximum bytes of the skipped records. */
const MAX_SKIPPED_BYTES = 64 * 1024

const HANDSHAKE_RECORD = 22
/** The first byte of the version of SSL 3.0 and of every TLS. */
export const MAJOR_VERSION = 3

export const NOT_TLS: HandshakeFault = { kind: 'fault', fault: 'not_tls' }
const TOO_LARGE: HandshakeFault = { kind: 'fault', fault: 'too_large' }

/** Reads one message from pieces of any size, and holds all bytes that it was given. */
export class HandshakeReader {
  readonly #options: HandshakeOptions
  readonly #held = new GrowableBuffer()
  /** How many of the held bytes have been parsed, and where among them the first record of the message begins. */
  #at = 0
  #begin = 0
  /** How many bytes of the current record's header have been parsed, and how many of its fragment have not. */
  #headerBytes = 0
  #fragmentLeft = 0
  /** Whether the current record is skipped. */
  #isSkipping = false
  /** How many bytes of the message have been parsed, and how long its body is according to its header. */
  #messageBytes = 0
  #bodyLength = 0

  constructor(options: HandshakeOptions) {
    this.#options = options
  }

  /** All bytes that were pushed, including those after the message. */
  get held(): Buffer {
    return this.#held.all
  }

  /** The held bytes that have been parsed: up to the verdict, if there is one. */
  get parsed(): Buffer {
    return this.held.subarray(0, this.#at)
  }

  /** The held bytes after those. */
  get rest(): Buffer {
    return this.held.subarray(this.#at)
  }

  /**
   * Parses further bytes; must not be called after a verdict.
   *
   * @returns the verdict, as soon as the bytes decide it; undefined if more bytes are needed
   */
  push(chunk: Uint8Array): HandshakeVerdict | undefined {
    this.#held.push(chunk)
    const { held } = this
    while (this.#at < held.length) {
      if (!this.#isSkipping && this.#at - this.#begin === this.#options.maxBytes) return TOO_LARGE
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
        this.#isSkipping = this.#messageBytes === 0 && this.#options.skippedTypes?.includes(byte) === true
        return this.#isSkipping || byte === HANDSHAKE_RECORD ? undefined : NOT_TLS
      case 2:
        return byte === MAJOR_VERSION ? undefined : NOT_TLS
      case RECORD_HEADER_BYTES: {
        this.#headerBytes = 0
        this.#fragmentLeft = this.held.readUInt16BE(this.#at - 2)
        if (this.#isSkipping && this.#at + this.#fragmentLeft > MAX_SKIPPED_BYTES) return TOO_LARGE
        const most = this.#isSkipping ? MAX_ENCRYPTED_BYTES : MAX_FRAGMENT_BYTES
        // Empty records could follow one another for ever without a message.
        return this.#fragmentLeft >= 1 && this.#fragmentLeft <= most ? undefined : NOT_TLS
      }
      default:
        return undefined
    }
  }

  #fragment(byte: number): HandshakeVerdict | undefined {
    this.#fragmentLeft -= 1
    if (!this.#isSkipping) return this.#message(byte)
    if (this.#fragmentLeft === 0) {
      this.#isSkipping = false
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
    return { kind: 'message', body: this.#body(), endsRecord: this.#fragmentLeft === 0 }
  }

  /** The message without its header, joined from its records. */
  #body(): Buffer {
    const { parsed } = this
    const fragments: Buffer[] = []
    for (let at = this.#begin; at < this.#at; ) {
      const begin = at + RECORD_HEADER_BYTES
      at = begin + parsed.readUInt16BE(begin - 2)
      fragments.push(parsed.subarray(begin, at))
    }
    return Buffer.concat(fragments).subarray(MESSAGE_HEADER_BYTES)
  }
}
