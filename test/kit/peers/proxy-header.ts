/** PROXY headers of version 2, valid or not (The PROXY protocol, §2.2). */

export interface BinaryHeader {
  /** 0x21 is PROXY, 0x20 LOCAL. */
  readonly command?: number
  /** By default that of the source: 0x11 TCP over IPv4, 0x21 over IPv6, 0x00 unspecified. */
  readonly transport?: number
  /** 4 or 16 bytes, also used as destination. By default no addresses and ports. */
  readonly source?: readonly number[]
  readonly extensions?: Buffer
}

export function binaryHeader({ command = 0x21, transport, source, extensions }: BinaryHeader): Buffer {
  const ports = [0xdc, 0x04, 0x01, 0xbb]
  const rest = Buffer.concat([
    Buffer.from(source === undefined ? [] : [...source, ...source, ...ports]),
    extensions ?? Buffer.alloc(0),
  ])
  const own = source === undefined ? 0x00 : source.length === 4 ? 0x11 : 0x21
  const fixed = Buffer.from([command, transport ?? own, rest.length >> 8, rest.length & 0xff])
  return Buffer.concat([Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1'), fixed, rest])
}
