/**
 * How far ahead an accepted socket is read while nobody takes what it brings.
 *
 * Node goes on reading a paused socket up to its high-water mark, which counts bytes: 16 or 64 KiB, each segment of one
 * byte in a buffer of its own, some 170 bytes of memory for each. With a mark of one byte there is one piece, however
 * large, and the rest waits in the system, where the client's window bounds it. A socket that flows is read as before.
 * node:net has the mark of both directions as one option; only the read side is to have this one.
 */
import type { Socket } from 'node:net'

export function limitReadAhead(socket: Socket): void {
  const { _readableState: state } = socket as { readonly _readableState?: { highWaterMark: number } }
  if (state !== undefined) state.highWaterMark = 1
}
