/** TLS ServerHellos assembled by hand; one with a special random requests a second ClientHello (RFC 8446 §4.1.3). */
import { createHash } from 'node:crypto'
import { extension, handshake, record, uint, vector } from './client-hello.js'

export const RETRY_RANDOM = createHash('sha256').update('HelloRetryRequest').digest()
export const CHANGE_CIPHER_SPEC = record(Uint8Array.of(1), 20, 0x0303)
export const FATAL_ALERT = record(Uint8Array.of(2, 40), 21, 0x0303)

export function serverHelloMessage(random: Uint8Array, ...extensions: Uint8Array[]): Buffer {
  const versions = extension(43, uint(0x0304, 2))
  const body = Buffer.concat([
    uint(0x0303, 2),
    random,
    vector(1, Buffer.alloc(32, 0xcd)),
    uint(0x1301, 2),
    uint(0, 1),
    vector(2, versions, ...extensions),
  ])
  return handshake(body, 2)
}

export const SERVER_HELLO = record(serverHelloMessage(Buffer.alloc(32, 0xef)), 22, 0x0303)
/** Requests a key share of another group. */
export const RETRY_MESSAGE = serverHelloMessage(RETRY_RANDOM, extension(51, uint(23, 2)))
export const RETRY_REQUEST = record(RETRY_MESSAGE, 22, 0x0303)

/** Data that a server skips when it rejects early data. */
export function earlyData(bytes: number): Buffer {
  return record(Buffer.alloc(bytes, 0xee), 23, 0x0303)
}
