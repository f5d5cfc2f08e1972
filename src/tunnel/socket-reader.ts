/**
 * The read side of a tunnel's socket, and the buffers that it reads into.
 *
 * Node allocates 64 KiB for every read of an ordinary socket. Sockets that are dialled here get a buffer of ours instead.
 * All quiet tunnels share one small buffer, whose content is copied before the next read. A tunnel that fills it gets a
 * large buffer of its own, and returns that when it is quiet again. So an idle tunnel needs no buffer, and a busy one
 * neither allocates nor copies.
 */
import { Socket } from 'node:net'

const SHARED_BYTES = 32 * 1024
const LARGE_BYTES = 256 * 1024
/** How many returned large buffers are kept for reuse; further ones are left to the garbage collector. */
const MAX_SPARE = 16

export class ReadBuffers {
  readonly #shared = Buffer.allocUnsafeSlow(SHARED_BYTES)
  readonly #spare: Buffer[] = []

  get shared(): Buffer {
    return this.#shared
  }

  takeLarge(): Buffer {
    return this.#spare.pop() ?? Buffer.allocUnsafeSlow(LARGE_BYTES)
  }

  giveLarge(buffer: Buffer): void {
    if (this.#spare.length < MAX_SPARE) this.#spare.push(buffer)
  }
}

/** The read side of one dialled socket. */
export interface SocketReader {
  /**
   * Passes what is read to `consume` from now on, and no longer to an earlier consumer.
   * @param copyBelow pieces of fewer bytes are copies, which the consumer may keep
   * @param consume returns false to get nothing more until the socket is resumed
   */
  start(copyBelow: number, consume: (chunk: Buffer) => boolean): void
  /** Takes back bytes that the consumer did not use; the next consumer gets them first. The socket must be paused. */
  unread(chunk: Buffer): void
  /** Returns the buffers. The socket must be closed, and nothing that was read from it still being written. */
  release(): void
}

/**
 * Reads a socket into the shared buffers: pass `onRead` to the dialler, then call `start` with the consumer, and again
 * with each later consumer.
 */
export class BufferedReader implements SocketReader {
  readonly #buffers: ReadBuffers
  #large: Buffer | undefined
  #quiet = true
  #copyBelow = Number.POSITIVE_INFINITY
  /** Bytes that were read before there was a consumer, or were taken back: nearly always none. */
  #early: Buffer[] | undefined
  #consume: ((chunk: Buffer) => boolean) | undefined

  constructor(buffers: ReadBuffers) {
    this.#buffers = buffers
  }

  /** The `onread` option of net.connect: if `callback` returns false, reading stops until the socket is resumed. */
  readonly onRead = {
    buffer: (): Buffer => {
      if (this.#quiet) return this.#buffers.shared
      this.#large ??= this.#buffers.takeLarge()
      return this.#large
    },
    callback: (bytes: number, view: Uint8Array): boolean => {
      const shared = view.buffer === this.#buffers.shared.buffer
      this.#quiet = shared ? bytes < SHARED_BYTES : bytes < SHARED_BYTES / 2
      const own =
        shared || bytes < this.#copyBelow
          ? copyOf(view, bytes)
          : Buffer.from(view.buffer, view.byteOffset, bytes)
      // This piece is a copy and earlier ones have been written, so the large buffer is no longer in use.
      if (this.#quiet && own.buffer !== view.buffer) this.#giveBack()
      if (this.#consume !== undefined) return this.#consume(own)
      this.#early ??= []
      this.#early.push(own)
      return true
    },
  }

  /**
   * @param copyBelow pieces of fewer bytes are copies, which the consumer may keep
   * @param consume gets each piece; a larger one is a view of the buffer, which is overwritten once `consume` has
   *   returned true, or once the socket is resumed after `consume` returned false
   */
  start(copyBelow: number, consume: (chunk: Buffer) => boolean): void {
    this.#copyBelow = copyBelow
    this.#consume = consume
    // One at a time: `consume` may start another consumer, which gets the rest.
    for (let chunk = this.#early?.shift(); chunk !== undefined; chunk = this.#early?.shift()) consume(chunk)
  }

  unread(chunk: Buffer): void {
    if (chunk.length === 0) return
    this.#early ??= []
    this.#early.unshift(chunk)
  }

  release(): void {
    this.#consume = () => true
    this.#quiet = true
    this.#giveBack()
  }

  #giveBack(): void {
    if (this.#large !== undefined) this.#buffers.giveLarge(this.#large)
    this.#large = undefined
  }
}

function copyOf(view: Uint8Array, bytes: number): Buffer {
  const copy = Buffer.allocUnsafe(bytes)
  copy.set(bytes === view.length ? view : view.subarray(0, bytes))
  return copy
}

/**
 * Reads a dialled socket that manages its own buffers, such as a TLS socket; for the consumer it works like
 * BufferedReader.
 */
export class StreamReader implements SocketReader {
  readonly #socket: Socket
  #consume: ((chunk: Buffer) => boolean) | undefined
  #unread: Buffer | undefined

  /** @param socket a connected socket, of which nothing has been read yet */
  constructor(socket: Socket) {
    this.#socket = socket
  }

  start(_copyBelow: number, consume: (chunk: Buffer) => boolean): void {
    const first = this.#consume === undefined
    this.#consume = consume
    const unread = this.#unread
    this.#unread = undefined
    if (unread !== undefined) this.#onData(unread)
    if (first) this.#socket.on('data', this.#onData)
  }

  unread(chunk: Buffer): void {
    if (chunk.length > 0) this.#unread = chunk
  }

  release(): void {
    this.#consume = () => true
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#consume?.(chunk) === false) this.#socket.pause()
  }
}

interface Handle {
  readStop(): number
  reading: boolean
  useUserBuffer(buffer: Uint8Array): void
}

export interface BufferedSocket {
  readonly socket: Socket
  /** Bytes that the old socket had already read. */
  readonly pending: Buffer
}

/**
 * Makes an accepted socket read into a buffer of ours, like a dialled one.
 *
 * net.Server cannot give its sockets an `onread`, so each of their reads allocates 64 KiB, and an upload through a tunnel
 * is half as fast as a download. So a connection that carries raw bytes is moved to a new Socket with `onread`. Node has
 * no documented way to do this. If its internals are not as expected, or the socket is not plain TCP, the socket is kept
 * and is just slower.
 *
 * @param plain a connected socket without listeners of its owner; it must not be used after it was moved
 * @param reader gets what the new socket reads
 * @returns undefined if the socket cannot be moved
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
  // Without a handle this does not close the connection; it only makes the server stop counting it.
  plain.destroy()
  // Node's type declarations lack the option `handle`.
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
