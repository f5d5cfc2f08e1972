/** TLS ClientHellos assembled by hand, so that each part can be invalid (RFC 8446 §4.1.2, §5.1). */

/** `value` in this many bytes, the most significant first. */
export function uint(value: number, byteLength: number): Buffer {
  const bytes = Buffer.alloc(byteLength)
  bytes.writeUIntBE(value, 0, byteLength)
  return bytes
}

/** The content, preceded by its length. */
export function vector(lengthBytes: number, ...content: Uint8Array[]): Buffer {
  const bytes = Buffer.concat(content)
  return Buffer.concat([uint(bytes.length, lengthBytes), bytes])
}

/** One name of a list, in latin1. */
export function nameEntry(name: string, type = 0): Buffer {
  return Buffer.concat([uint(type, 1), vector(2, Buffer.from(name, 'latin1'))])
}

export function extension(type: number, ...data: Uint8Array[]): Buffer {
  return Buffer.concat([uint(type, 2), vector(2, ...data)])
}

export function serverNameExtension(...entries: Uint8Array[]): Buffer {
  return extension(0, vector(2, ...entries))
}

/** Other extensions that hellos have: supported_groups, and padding that resembles a name. */
export const BEFORE = extension(10, vector(2, uint(29, 2)))
export const BEHIND = extension(21, nameEntry('padding.test'))

export interface HelloParts {
  readonly version?: number
  readonly random?: Uint8Array
  /** The three vectors, with their lengths. */
  readonly sessionId?: Uint8Array
  readonly cipherSuites?: Uint8Array
  readonly compression?: Uint8Array
  /** The vector of extensions with its length; empty for a hello that ends before it. */
  readonly extensions?: Uint8Array
}

/** The body of a hello, without its handshake header. */
export function helloBody(parts: HelloParts = {}): Buffer {
  return Buffer.concat([
    uint(parts.version ?? 0x0303, 2),
    parts.random ?? Buffer.alloc(32, 0xab),
    parts.sessionId ?? vector(1, Buffer.alloc(32, 0xcd)),
    parts.cipherSuites ?? vector(2, uint(0x1301, 2), uint(0x1302, 2)),
    parts.compression ?? vector(1, uint(0, 1)),
    parts.extensions ?? vector(2, BEFORE, BEHIND),
  ])
}

export function handshake(body: Uint8Array, type = 1): Buffer {
  return Buffer.concat([uint(type, 1), vector(3, body)])
}

export function record(fragment: Uint8Array, type = 22, version = 0x0301): Buffer {
  return Buffer.concat([uint(type, 1), uint(version, 2), vector(2, fragment)])
}

/** A handshake message in as many records as it needs. */
export function records(message: Uint8Array, fragmentBytes = 2 ** 14): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < message.length; at += fragmentBytes) {
    parts.push(record(message.subarray(at, at + fragmentBytes)))
  }
  return Buffer.concat(parts)
}

/** A complete hello in one record. @param name undefined for one without a server name */
export function clientHello(name?: string): Buffer {
  const named = name === undefined ? [] : [serverNameExtension(nameEntry(name))]
  return record(handshake(helloBody({ extensions: vector(2, BEFORE, ...named, BEHIND) })))
}

/** A hello of exactly this many bytes, including record headers: its padding extension fills the rest. */
export function paddedHello(name: string, totalBytes: number): Buffer {
  const named = serverNameExtension(nameEntry(name))
  const build = (padding: number) =>
    records(handshake(helloBody({ extensions: vector(2, named, extension(21, Buffer.alloc(padding))) })))
  const hello = build(totalBytes - build(0).length)
  // Each further record has a header of its own.
  return hello.length === totalBytes ? hello : build(2 * totalBytes - build(0).length - hello.length)
}
