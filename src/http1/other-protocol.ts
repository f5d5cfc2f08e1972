/**
 * What clients speak to a proxy that is not HTTP, as the first byte of a connection tells: no request line begins with one
 * of these, so nothing has to be waited for. Each is answered in its own words, as far as it has any, because whoever
 * speaks it would read an HTTP response as garbage; the sentence is for the log.
 */
import { ProxyError } from '../errors.js'

/** The client speaks another protocol; `answer` is what that protocol has to refuse with. */
export class OtherProtocol extends ProxyError {
  readonly answer: Uint8Array

  /** @param reason the word for logs and metrics */
  constructor(reason: string, message: string, detail: string, answer: readonly number[]) {
    super('http_request_error', message, { close: true, reason, detail })
    this.answer = Uint8Array.from(answer)
  }
}

const SOCKS_4 = 0x04
const SOCKS_5 = 0x05
/** The content type of a TLS record that holds a handshake message (RFC 8446 §5.1). */
const TLS_HANDSHAKE = 0x16

/** Request rejected or failed, with a port and an address that say nothing (SOCKS 4 protocol, "CONNECT"). */
const SOCKS_4_REJECTED = [0x00, 0x5b, 0, 0, 0, 0, 0, 0]
/** No acceptable methods (RFC 1928 §3). */
const SOCKS_5_NO_METHOD = [0x05, 0xff]
/** The fatal alert protocol_version in a record of TLS 1.2: there is no version of TLS here (RFC 8446 §5.1, §6.2). */
const TLS_NO_VERSION = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46]

/**
 * @param first the first byte of a connection
 * @returns undefined for what may be HTTP, and for what is nothing that is known
 */
export function recogniseOtherProtocol(first: number): OtherProtocol | undefined {
  if (first === SOCKS_5) return spokeSocks(SOCKS_5_NO_METHOD)
  if (first === SOCKS_4) return spokeSocks(SOCKS_4_REJECTED)
  if (first !== TLS_HANDSHAKE) return undefined
  return new OtherProtocol(
    'tls_on_plain_port',
    'TLS spoken to the plain port',
    'TLS was spoken to a port for plain HTTP; use http:// in HTTPS_PROXY, or connect to the listener of listen.tls.',
    TLS_NO_VERSION,
  )
}

function spokeSocks(answer: readonly number[]): OtherProtocol {
  return new OtherProtocol(
    'socks',
    'SOCKS spoken to an HTTP proxy',
    'SOCKS was spoken to an HTTP proxy; use http:// in place of socks4://, socks5:// or socks5h:// in the URL of the proxy.',
    answer,
  )
}

/** The answer to HTTP where TLS belongs: a port of `listen.tls`. */
export function plainHttpOnTlsPort(): ProxyError {
  return new ProxyError('http_request_error', 'plain HTTP sent to the TLS port, use https://', {
    close: true,
    reason: 'http_on_tls_port',
    detail:
      'Plain HTTP was sent to the TLS port; use https:// in the URL of the proxy, or connect to a listener of listen.proxy.',
  })
}
