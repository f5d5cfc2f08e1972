/** Much content on one socket: written as fast as it is taken, or read as slowly as a test likes. */
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'

/** What content is made of: its period divides no size of a buffer, so that a lost or doubled one shows. */
const PIECE = Buffer.alloc(64 * 1024, Buffer.from(Array.from({ length: 251 }, (_, i) => i)))
/** How long nothing may be taken before the reader counts as stalled. */
const STALL_MS = 100

/** The SHA-1 of `total` bytes as `pour` writes them. */
export function pouredDigest(total: number): string {
  const hash = createHash('sha1')
  for (let sent = 0; sent < total; sent += PIECE.length) hash.update(PIECE.subarray(0, total - sent))
  return hash.digest('hex')
}

/** Writes `total` bytes, and no more at a time than the socket takes. */
export function pour(socket: Socket, total: number): { taken(): number; stalled(): Promise<number> } {
  let written = 0
  const more = (): void => {
    while (written < total && !socket.destroyed) {
      const piece = PIECE.subarray(0, total - written)
      written += piece.length
      if (!socket.write(piece)) {
        socket.once('drain', more)
        return
      }
    }
  }
  more()
  const taken = () => written - socket.writableLength
  return {
    taken,
    /** Resolves with the bytes taken so far once no more are. */
    stalled: () =>
      new Promise(resolve => {
        let before = -1
        const timer = setInterval(() => {
          if (taken() === before) {
            clearInterval(timer)
            resolve(before)
          }
          before = taken()
        }, STALL_MS)
      }),
  }
}

/** Reads `total` bytes; resolves with their SHA-1. */
export function drain(socket: Socket, total: number, onProgress?: (bytes: number) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const hash = createHash('sha1')
    let bytes = 0
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length
      hash.update(chunk)
      onProgress?.(bytes)
      if (bytes < total) return
      socket.off('data', onData)
      socket.off('close', onClose)
      resolve(hash.digest('hex'))
    }
    const onClose = (): void => reject(new Error(`closed after ${bytes} of ${total} bytes`))
    socket.on('data', onData)
    socket.on('close', onClose)
    socket.resume()
  })
}
