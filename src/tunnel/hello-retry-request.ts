/**
 * Whether a TLS server's first message asks the client for a second hello (RFC 8446 §4.1.3, §4.1.4).
 *
 * It does so in the form of a ServerHello with a random of its own. The hello that follows is plain text once more,
 * and the server goes by its name and not by the first one's.
 */
import { HandshakeReader } from './handshake-message.js'

const SERVER_HELLO = 2
/** The SHA-256 of "HelloRetryRequest". */
const RETRY_RANDOM = Buffer.from('cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c', 'hex')
/** Where the random is in the message, behind the version. */
const RANDOM_BEGIN = 2
const RANDOM_END = RANDOM_BEGIN + RETRY_RANDOM.length
/** Above every ServerHello: what it can hold are 64 KiB of extensions and 72 bytes before them. */
const MAX_BYTES = 128 * 1024

/** Reads the first message of a server, however it is cut up. */
export class ServerHelloReader {
  readonly #reader = new HandshakeReader({ messageType: SERVER_HELLO, maxBytes: MAX_BYTES })

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
