/**
 * Makes an accepted socket read into a buffer of ours, as a dialled one does.
 *
 * net.Server gives its sockets no `onread`, and every read of theirs allocates 64 KiB: an upload through a tunnel then
 * runs at half the speed of a download. So the connection is moved, once it carries raw bytes, to a new Socket that
 * has one. Node has no documented way to do this; where its parts are not as expected, or the socket is not plain TCP,
 * the socket stays as it is and is only slower.
 */
import { Socket } from 'node:net'
import type { BufferedReader } from './read-buffer.js'

interface Handle {
  readStop(): number
  reading: boolean
  useUserBuffer(buffer: Uint8Array): void
}

export interface BufferedSocket {
  readonly socket: Socket
  /** Bytes that the old socket had read already. */
  readonly pending: Buffer
}

/**
 * @param plain a connected socket with no listeners of its owner's left; not to be used any more when it was moved
 * @param reader gets what the new socket reads
 * @returns undefined when the socket has to stay as it is
 */
export function toBufferedSocket(plain: Socket, reader: BufferedReader): BufferedSocket | undefined {
  const inner = plain as Socket & { _handle?: unknown; encrypted?: boolean }
  const handle = inner._handle
  const movable = inner.encrypted !== true && plain.writableLength === 0 && !plain.destroyed
  if (!movable || !plain.readable || !isHandle(handle)) return undefined
  handle.readStop()
  handle.reading = false
  const pending: unknown = plain.read()
  inner._handle = null
  // Without a handle this closes nothing; it tells the server that the connection is no longer in its count.
  plain.destroy()
  // The declared options lack `handle`.
  const options = { handle, allowHalfOpen: true, onread: reader.onRead }
  return { socket: new Socket(options), pending: pending instanceof Buffer ? pending : Buffer.alloc(0) }
}

function isHandle(value: unknown): value is Handle {
  return (
    typeof value === 'object' &&
    value !== null &&
    'readStop' in value &&
    'reading' in value &&
    'useUserBuffer' in value
  )
}
