/**
 * Protocols other than HTTP that clients send to a proxy by mistake, recognised by the first byte of a connection: no
 * request line begins with it, so no further bytes are needed. Each is refused in its own format where it has one,
 * because such a client would not understand an HTTP response; the message is for the log.
 */
import { ProxyError } from '../errors.js'

/** The client uses another protocol; `answer` contains the refusal in the format of that protocol. */
export class OtherProtocol extends ProxyError {
  readonly answer: Uint8Array

  /** @param reason the word for logs and metrics, from a closed list */
  constructor(reason: string, message: string, detail: string, answer: readonly number[]) {
    super('http_request_error', message, { close: true, reason, detail })
    this.answer = Uint8Array.from(answer)
  }
}

const SOCKS_4 = 0x04
const SOCKS_5 = 0x05
/** The content type of a TLS record that holds a handshake message (RFC 8446 §5.1). */
const TLS_HANDSHAKE = 0x16

/** Request rejected or failed, with a meaningless port and address (SOCKS 4 protocol, "CONNECT"). */
const SOCKS_4_REJECTED = [0x00, 0x5b, 0, 0, 0, 0, 0, 0]
/** No acceptable methods (RFC 1928 §3). */
const SOCKS_5_NO_METHOD = [0x05, 0xff]
/** The fatal alert protocol_version in a TLS 1.2 record: no version of TLS is accepted here (RFC 8446 §5.1, §6.2). */
const TLS_NO_VERSION = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46]

/**
 * @param first the first byte of a connection
 * @returns undefined when it may be HTTP, and for unknown protocols
 */
export function recogniseOtherProtocol(first: number): OtherProtocol | undefined {
  if (first === SOCKS_5) return socks(SOCKS_5_NO_METHOD)
  if (first === SOCKS_4) return socks(SOCKS_4_REJECTED)
  if (first !== TLS_HANDSHAKE) return undefined
  return new OtherProtocol(
    'tls_on_plain_port',
    'TLS sent to the plain HTTP port',
    'The client sent TLS to a port for plain HTTP; use http:// in HTTPS_PROXY, or connect to the listener of listen.tls.',
    TLS_NO_VERSION,
  )
}

function socks(answer: readonly number[]): OtherProtocol {
  return new OtherProtocol(
    'socks',
    'SOCKS sent to an HTTP proxy',
    'The client sent SOCKS to an HTTP proxy; use http:// in place of socks4://, socks5:// or socks5h:// in the URL of the proxy.',
    answer,
  )
}

/** The error for plain HTTP on a port of `listen.tls`. */
export function plainHttpOnTlsPort(): ProxyError {
  return new ProxyError('http_request_error', 'plain HTTP sent to the TLS port, use https://', {
    close: true,
    reason: 'http_on_tls_port',
    detail:
      'The client sent plain HTTP to the TLS port; use https:// in the URL of the proxy, or connect to a listener of listen.proxy.',
  })
}
