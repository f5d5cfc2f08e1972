/** Much content on one socket: written as fast as it is accepted, or read as slowly as a test requires. */
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'

/** The repeated content: its period divides no buffer size, so that a lost or repeated buffer is detected. */
const PIECE = Buffer.alloc(64 * 1024, Buffer.from(Array.from({ length: 251 }, (_, i) => i)))
/** How many times in a row nothing was accepted before the reader counts as stalled. */
const STALL_LOOKS = 20
/** The interval of the checks; if the process itself was suspended, only one check is late. */
const LOOK_MS = 5

/** Returns the 64 KiB at an offset, which is a multiple of that. */
export type PieceAt = (offset: number) => Buffer

/** Content that is different everywhere: each piece begins with its offset. */
export function numberedPiece(offset: number): Buffer {
  const piece = Buffer.from(PIECE)
  piece.writeBigUInt64BE(BigInt(offset))
  return piece
}

/** A part of the content of `numberedPiece`. */
export function numberedContent(offset: number, length: number): Buffer {
  const first = offset - (offset % PIECE.length)
  const pieces: Buffer[] = []
  for (let at = first; at < offset + length; at += PIECE.length) pieces.push(numberedPiece(at))
  return Buffer.concat(pieces).subarray(offset - first, offset - first + length)
}

/** The SHA-1 of `total` bytes as `pour` writes them. */
export function bulkDigest(total: number, pieceAt: PieceAt = () => PIECE): string {
  const hash = createHash('sha1')
  for (let sent = 0; sent < total; sent += PIECE.length) hash.update(pieceAt(sent).subarray(0, total - sent))
  return hash.digest('hex')
}

/** Writes `total` bytes, no more at a time than the socket accepts. */
export function writeBulk(
  socket: Socket,
  total: number,
  pieceAt: PieceAt = () => PIECE,
): { taken(): number; stalled(): Promise<number> } {
  let written = 0
  const more = (): void => {
    while (written < total && !socket.destroyed) {
      const piece = pieceAt(written).subarray(0, total - written)
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
    /** Resolves with the number of bytes accepted so far when no more are accepted. */
    stalled: () =>
      new Promise(resolve => {
        let before = -1
        let same = 0
        const timer = setInterval(() => {
          same = taken() === before ? same + 1 : 0
          before = taken()
          if (same < STALL_LOOKS) return
          clearInterval(timer)
          resolve(before)
        }, LOOK_MS)
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
