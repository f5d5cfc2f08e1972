/**
 * Which server a TLS client asks for: the host name in the server_name extension of its first message
 * (RFC 8446 §4.1.2, §5.1; RFC 6066 §3).
 *
 * Records and message are read strictly. Where two readers could see two different names in the same bytes (a second
 * list, a second name, bytes behind a vector), the client might show the one here and mean the other at the origin;
 * so those are no hello at all. Of an encrypted hello the outer name counts, which is all that can be seen.
 */

export type HelloVerdict =
  /** `serverName` as it was sent, one character a byte; undefined when there is none. */
  | { readonly kind: 'hello'; readonly serverName: string | undefined }
  | { readonly kind: 'fault'; readonly fault: 'not_tls' | 'too_large' }

/**
 * Bytes of a hello, record headers included. Hellos have about 500 bytes, 2,000 with a post-quantum key share, and
 * some thousand more with several of those and a long session ticket; the message format itself ends at 16 MiB.
 */
const MAX_BYTES = 32 * 1024
const RECORD_HEADER_BYTES = 5
const MESSAGE_HEADER_BYTES = 4
/** Content of one record (RFC 8446 §5.1). */
const MAX_FRAGMENT_BYTES = 2 ** 14

const HANDSHAKE_RECORD = 22
const CLIENT_HELLO = 1
/** SSL 3.0 and every TLS begin their version with it. */
const MAJOR_VERSION = 3
const SERVER_NAME_EXTENSION = 0
const HOST_NAME = 0

const NOT_TLS: HelloVerdict = { kind: 'fault', fault: 'not_tls' }
const TOO_LARGE: HelloVerdict = { kind: 'fault', fault: 'too_large' }

/** Reads one hello, however it is cut up, and holds all bytes that it was given. */
export class ClientHelloReader {
  #held = Buffer.alloc(0)
  #length = 0
  /** How many of the bytes held have been judged. */
  #at = 0
  /** How much of the header of the record has been judged, and how much of its fragment has not. */
  #headerBytes = 0
  #fragmentLeft = 0
  /** How much of the message has been seen, and how long its header says that the rest of it is. */
  #messageBytes = 0
  #bodyLength = 0

  /** Everything that was pushed, also what lies behind the hello. */
  get held(): Buffer {
    return this.#held.subarray(0, this.#length)
  }

  /**
   * Takes further bytes; none after a verdict.
   *
   * @returns the verdict, with the first byte that decides it; undefined when more bytes are needed
   */
  push(chunk: Uint8Array): HelloVerdict | undefined {
    this.#hold(chunk)
    while (this.#at < this.#length) {
      if (this.#at === MAX_BYTES) return TOO_LARGE
      const byte = this.#held[this.#at++] ?? 0
      const verdict = this.#fragmentLeft === 0 ? this.#recordHeader(byte) : this.#message(byte)
      if (verdict !== undefined) return verdict
    }
    return undefined
  }

  /** In a buffer that doubles, so that a hello that comes a byte at a time is not copied for every byte. */
  #hold(chunk: Uint8Array): void {
    const length = this.#length + chunk.length
    if (length > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#held.length))
      this.#held.copy(larger, 0, 0, this.#length)
      this.#held = larger
    }
    this.#held.set(chunk, this.#length)
    this.#length = length
  }

  #recordHeader(byte: number): HelloVerdict | undefined {
    this.#headerBytes += 1
    switch (this.#headerBytes) {
      case 1:
        return byte === HANDSHAKE_RECORD ? undefined : NOT_TLS
      case 2:
        return byte === MAJOR_VERSION ? undefined : NOT_TLS
      case RECORD_HEADER_BYTES: {
        this.#headerBytes = 0
        this.#fragmentLeft = this.#held.readUInt16BE(this.#at - 2)
        // Empty ones could go on for ever without a message ever coming.
        return this.#fragmentLeft >= 1 && this.#fragmentLeft <= MAX_FRAGMENT_BYTES ? undefined : NOT_TLS
      }
      default:
        return undefined
    }
  }

  #message(byte: number): HelloVerdict | undefined {
    this.#fragmentLeft -= 1
    this.#messageBytes += 1
    if (this.#messageBytes === 1) return byte === CLIENT_HELLO ? undefined : NOT_TLS
    if (this.#messageBytes <= MESSAGE_HEADER_BYTES) this.#bodyLength = this.#bodyLength * 256 + byte
    if (this.#messageBytes < MESSAGE_HEADER_BYTES) return undefined
    if (RECORD_HEADER_BYTES + MESSAGE_HEADER_BYTES + this.#bodyLength > MAX_BYTES) return TOO_LARGE
    if (this.#messageBytes < MESSAGE_HEADER_BYTES + this.#bodyLength) return undefined
    // A client has nothing to say behind its hello until the server has answered.
    if (this.#fragmentLeft > 0) return NOT_TLS
    try {
      return { kind: 'hello', serverName: parseServerName(this.#body()) }
    } catch (error) {
      if (error instanceof MalformedHello) return NOT_TLS
      throw error
    }
  }

  /** The message without its header, out of all records so far. */
  #body(): Buffer {
    const fragments: Buffer[] = []
    for (let at = 0; at < this.#at; ) {
      const begin = at + RECORD_HEADER_BYTES
      at = begin + this.#held.readUInt16BE(begin - 2)
      fragments.push(this.#held.subarray(begin, at))
    }
    return Buffer.concat(fragments).subarray(MESSAGE_HEADER_BYTES)
  }
}

class MalformedHello extends Error {}

/**
 * @param body a ClientHello without its handshake header
 * @throws MalformedHello
 */
function parseServerName(body: Buffer): string | undefined {
  const hello = new Fields(body)
  if (hello.number(1) !== MAJOR_VERSION) throw new MalformedHello('version')
  hello.number(1)
  hello.bytes(32)
  hello.vector(1, 0, 32)
  if (hello.vector(2, 2).length % 2 !== 0) throw new MalformedHello('half a cipher suite')
  hello.vector(1, 1)
  // Before TLS 1.3 a hello may end here.
  if (hello.done) return undefined
  const extensions = new Fields(hello.vector(2, 0))
  if (!hello.done) throw new MalformedHello('bytes behind the extensions')
  let serverName: string | undefined
  while (!extensions.done) {
    const type = extensions.number(2)
    const data = extensions.vector(2, 0)
    if (type !== SERVER_NAME_EXTENSION) continue
    if (serverName !== undefined) throw new MalformedHello('a second server_name extension')
    serverName = parseHostName(data)
  }
  return serverName
}

/**
 * @param data of a server_name extension: a list of names, of which there is one kind, and of each kind one at most
 * @throws MalformedHello
 */
function parseHostName(data: Buffer): string {
  const extension = new Fields(data)
  const list = new Fields(extension.vector(2, 1))
  if (!extension.done) throw new MalformedHello('bytes behind the list of names')
  if (list.number(1) !== HOST_NAME) throw new MalformedHello('a name of another type')
  const name = list.vector(2, 1)
  if (!list.done) throw new MalformedHello('a second name')
  return name.toString('latin1')
}

/** Takes a message apart from front to back (RFC 8446 §3). */
class Fields {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get done(): boolean {
    return this.#at === this.#bytes.length
  }

  /** @throws MalformedHello when there are not so many */
  bytes(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw new MalformedHello('cut short')
    const taken = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }

  /** @throws MalformedHello when it is cut short */
  number(byteLength: 1 | 2): number {
    return this.bytes(byteLength).readUIntBE(0, byteLength)
  }

  /**
   * Bytes with their number before them.
   *
   * @throws MalformedHello when they are cut short, too few or too many
   */
  vector(lengthBytes: 1 | 2, least: number, most = Number.POSITIVE_INFINITY): Buffer {
    const length = this.number(lengthBytes)
    if (length < least || length > most) throw new MalformedHello('length')
    return this.bytes(length)
  }
}
