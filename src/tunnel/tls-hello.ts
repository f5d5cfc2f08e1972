/**
 * Which server a TLS client asks for: the host name in the server_name extension of its hello
 * (RFC 8446 §4.1.2, §5.1; RFC 6066 §3), and whether the server asks it for a second hello.
 *
 * Records and message are read strictly. Where two readers could see two different names in the same bytes (a second
 * list, a second name, bytes behind a vector), the client might show the one here and mean the other at the origin;
 * so those are no hello at all. Of an encrypted hello the outer name counts, which is all that can be seen.
 */
import { type HandshakeFault, HandshakeReader, MAJOR_VERSION, NOT_TLS } from './handshake-message.js'

export type HelloVerdict =
  /** `serverName` as it was sent, one character a byte; undefined when there is none. */
  { readonly kind: 'hello'; readonly serverName: string | undefined } | HandshakeFault

/**
 * Bytes of a hello, record headers included. Hellos have about 500 bytes, 2,000 with a post-quantum key share, and
 * some thousand more with several of those and a long session ticket; the message format itself ends at 16 MiB.
 */
const MAX_CLIENT_HELLO_BYTES = 32 * 1024
/** What may stand before a second hello: change_cipher_spec and early data, which the server does not read then. */
const BEFORE_SECOND = [20, 23]

const CLIENT_HELLO = 1
const SERVER_NAME_EXTENSION = 0
const HOST_NAME = 0

/** Reads one hello, however it is cut up, and holds all bytes that it was given. */
export class ClientHelloReader {
  readonly #reader: HandshakeReader

  /** @param which `second` for the one behind a HelloRetryRequest (RFC 8446 §4.2.10, appendix D.4) */
  constructor(which: 'first' | 'second' = 'first') {
    const options = { messageType: CLIENT_HELLO, maxBytes: MAX_CLIENT_HELLO_BYTES }
    this.#reader = new HandshakeReader(which === 'first' ? options : { ...options, before: BEFORE_SECOND })
  }

  /** Everything that was pushed, also what lies behind the hello. */
  get held(): Buffer {
    return this.#reader.held
  }

  /** Of these, the hello; with a verdict. */
  get hello(): Buffer {
    return this.#reader.judged
  }

  /** And what lies behind it. */
  get behind(): Buffer {
    return this.#reader.behind
  }

  /**
   * Takes further bytes; none after a verdict.
   *
   * @returns the verdict, with the first byte that decides it; undefined when more bytes are needed
   */
  push(chunk: Uint8Array): HelloVerdict | undefined {
    const verdict = this.#reader.push(chunk)
    if (verdict?.kind !== 'message') return verdict
    // A client has nothing to say behind its hello until the server has answered.
    if (!verdict.alone) return NOT_TLS
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

const SERVER_HELLO = 2
/** The SHA-256 of "HelloRetryRequest". */
const RETRY_RANDOM = Buffer.from('cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c', 'hex')
/** Where the random is in the message, behind the version. */
const RANDOM_BEGIN = 2
const RANDOM_END = RANDOM_BEGIN + RETRY_RANDOM.length
/** Above every ServerHello: what it can hold are 64 KiB of extensions and 72 bytes before them. */
const MAX_SERVER_HELLO_BYTES = 128 * 1024

/**
 * Reads the first message of a server, however it is cut up: whether it asks the client for a second hello
 * (RFC 8446 §4.1.3, §4.1.4). It does so in the form of a ServerHello with a random of its own. The hello that follows is
 * plain text once more, and the server goes by its name and not by the first one's.
 */
export class ServerHelloReader {
  readonly #reader = new HandshakeReader({ messageType: SERVER_HELLO, maxBytes: MAX_SERVER_HELLO_BYTES })

  /**
   * Takes further bytes; none after a verdict.
   *
   * @returns whether the server asks for a second hello, once the message that does so is whole, or it is clear that
   *   there is none; undefined when more bytes are needed
   */
  push(chunk: Uint8Array): 'retry' | 'other' | undefined {
    const verdict = this.#reader.push(chunk)
    if (verdict === undefined) return undefined
    if (verdict.kind === 'fault') return 'other'
    return verdict.body.subarray(RANDOM_BEGIN, RANDOM_END).equals(RETRY_RANDOM) ? 'retry' : 'other'
  }
}
