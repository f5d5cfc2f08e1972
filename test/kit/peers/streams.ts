/** Much data through a socket: reproducible random content, and a digest of it at the other end. */
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Random } from '../fakes/random.js'

export interface Digest {
  readonly bytes: number
  readonly sha256: string
}

export function randomContent(bytes: number, random: Random): Buffer {
  const words = new Uint32Array(Math.ceil(bytes / 4))
  for (let i = 0; i < words.length; i++) words[i] = random(2 ** 32)
  return Buffer.from(words.buffer, 0, bytes)
}

export function digestOf(content: Buffer): Digest {
  return { bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') }
}

/** The digest of what a socket receives until its end. */
export function digest(socket: Socket): Promise<Digest> {
  const hash = createHash('sha256')
  let bytes = 0
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    hash.update(chunk)
  })
  return new Promise((resolve, reject) => {
    socket.once('end', () => resolve({ bytes, sha256: hash.digest('hex') }))
    socket.once('error', reject)
  })
}

/** Makes a socket stop reading from time to time, for some turns of the event loop. */
export function readInFits(socket: Socket, random: Random): void {
  socket.on('data', () => {
    if (random(3) > 0) return
    socket.pause()
    let turns = 1 + random(5)
    const turn = (): void => {
      if (--turns > 0 && !socket.destroyed) setImmediate(turn)
      else socket.resume()
    }
    setImmediate(turn)
  })
}

/**
 * Writes content in pieces of every size from a byte to `longest`, as fast as the socket accepts them, then ends it.
 */
export async function writeInPieces(
  socket: Socket,
  content: Buffer,
  random: Random,
  longest = 300_000,
): Promise<void> {
  for (let at = 0; at < content.length; ) {
    const length = 1 + random(random(2) === 0 ? longest : 2000)
    if (!socket.write(content.subarray(at, at + length))) {
      await new Promise(resolve => socket.once('drain', resolve))
    }
    at += length
  }
  socket.end()
}
