/**
 * Reads the host name in the server_name extension of a ClientHello (RFC 8446 §4.1.2, §5.1; RFC 6066 §3), and detects a
 * server's request for a second ClientHello.
 *
 * Records and messages are parsed strictly. If two parsers could find two different names in the same bytes (a second
 * list, a second name, bytes after a vector), a client could show one name here and reach another at the origin. So such
 * a message is refused as not TLS. Of an Encrypted Client Hello only the outer name can be seen, so that is what counts.
 */
import { type HandshakeFault, HandshakeReader, MAJOR_VERSION, NOT_TLS } from './handshake-message.js'

export type HelloVerdict =
  /** `serverName` is the name as sent, one character for each byte; undefined if there is none. */
  { readonly kind: 'hello'; readonly serverName: string | undefined } | HandshakeFault

/**
 * Maximum bytes of a ClientHello, including record headers. Usual ones have about 500 bytes, 2,000 with a post-quantum
 * key share, and a few thousand more with several of those and a long session ticket. The format allows 16 MiB.
 */
const MAX_CLIENT_HELLO_BYTES = 32 * 1024
/** Records that may precede a second ClientHello: change_cipher_spec, and early data, which the server discards then. */
const BEFORE_SECOND = [20, 23]

const CLIENT_HELLO = 1
const SERVER_NAME_EXTENSION = 0
const HOST_NAME = 0

/** Reads one ClientHello from pieces of any size, and holds all bytes that it was given. */
export class ClientHelloReader {
  readonly #reader: HandshakeReader

  /** @param which `second` for the one after a HelloRetryRequest (RFC 8446 §4.2.10, appendix D.4) */
  constructor(which: 'first' | 'second' = 'first') {
    const options = { messageType: CLIENT_HELLO, maxBytes: MAX_CLIENT_HELLO_BYTES }
    this.#reader = new HandshakeReader(
      which === 'first' ? options : { ...options, skippedTypes: BEFORE_SECOND },
    )
  }

  /** All bytes that were pushed, including those after the ClientHello. */
  get held(): Buffer {
    return this.#reader.held
  }

  /** The ClientHello itself, once there is a verdict. */
  get hello(): Buffer {
    return this.#reader.parsed
  }

  /** The held bytes after the ClientHello. */
  get rest(): Buffer {
    return this.#reader.rest
  }

  /**
   * Parses further bytes; must not be called after a verdict.
   *
   * @returns the verdict, as soon as the bytes decide it; undefined if more bytes are needed
   */
  push(chunk: Uint8Array): HelloVerdict | undefined {
    const verdict = this.#reader.push(chunk)
    if (verdict?.kind !== 'message') return verdict
    // A client sends no other handshake message after its ClientHello until the server has answered.
    if (!verdict.endsRecord) return NOT_TLS
    try {
      return { kind: 'hello', serverName: parseServerName(verdict.body) }
    } catch (error) {
      if (error instanceof MalformedHello) return NOT_TLS
      throw error
    }
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
  // Before TLS 1.3, a ClientHello without extensions may end here.
  if (hello.done) return undefined
  const extensions = new Fields(hello.vector(2, 0))
  if (!hello.done) throw new MalformedHello('bytes after the extensions')
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
 * @param data the data of a server_name extension: a list of names, with at most one of each type; only host_name exists
 * @throws MalformedHello
 */
function parseHostName(data: Buffer): string {
  const extension = new Fields(data)
  const list = new Fields(extension.vector(2, 1))
  if (!extension.done) throw new MalformedHello('bytes after the list of names')
  if (list.number(1) !== HOST_NAME) throw new MalformedHello('a name of another type')
  const name = list.vector(2, 1)
  if (!list.done) throw new MalformedHello('a second name')
  return name.toString('latin1')
}

/** Parses the fields of a message from front to back (RFC 8446 §3). */
class Fields {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get done(): boolean {
    return this.#at === this.#bytes.length
  }

  /** @throws MalformedHello if there are fewer bytes */
  bytes(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw new MalformedHello('truncated')
    const taken = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }

  /** @throws MalformedHello if it is truncated */
  number(byteLength: 1 | 2): number {
    return this.bytes(byteLength).readUIntBE(0, byteLength)
  }

  /**
   * Reads a vector: its length, then as many bytes.
   *
   * @throws MalformedHello if it is truncated, too short or too long
   */
  vector(lengthBytes: 1 | 2, least: number, most = Number.POSITIVE_INFINITY): Buffer {
    const length = this.number(lengthBytes)
    if (length < least || length > most) throw new MalformedHello('length')
    return this.bytes(length)
  }
}

const SERVER_HELLO = 2
/** The SHA-256 of "HelloRetryRequest". */
const RETRY_RANDOM = Buffer.from('cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c', 'hex')
/** Where the random is in the message: after the version. */
const RANDOM_BEGIN = 2
const RANDOM_END = RANDOM_BEGIN + RETRY_RANDOM.length
/** More than any ServerHello, which holds up to 64 KiB of extensions and 72 bytes before them. */
const MAX_SERVER_HELLO_BYTES = 128 * 1024

/**
 * Reads the first message of a server, from pieces of any size, to find out whether it is a HelloRetryRequest, which has
 * the form of a ServerHello with a special random (RFC 8446 §4.1.3, §4.1.4). The client then sends a second ClientHello
 * in plain text, and the server uses the name in that one.
 */
export class ServerHelloReader {
  readonly #reader = new HandshakeReader({ messageType: SERVER_HELLO, maxBytes: MAX_SERVER_HELLO_BYTES })

  /**
   * Parses further bytes; must not be called after a verdict.
   *
   * @returns `retry` once a HelloRetryRequest is complete; `other` as soon as it cannot be one; undefined if more bytes
   *   are needed
   */
  push(chunk: Uint8Array): 'retry' | 'other' | undefined {
    const verdict = this.#reader.push(chunk)
    if (verdict === undefined) return undefined
    if (verdict.kind === 'fault') return 'other'
    return verdict.body.subarray(RANDOM_BEGIN, RANDOM_END).equals(RETRY_RANDOM) ? 'retry' : 'other'
  }
}
