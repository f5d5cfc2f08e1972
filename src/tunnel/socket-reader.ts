/**
 * The read side of a socket whose bytes are pumped, and where they are read into.
 *
 * Node allocates 64 KiB for every read of an ordinary socket. Sockets that we dial take a buffer of ours instead. All quiet
 * tunnels share one small buffer, whose content is copied out before anybody else can read into it; a tunnel that
 * fills it is given a large one of its own, which goes back when the tunnel turns quiet. So an idle tunnel costs no
 * buffer, and a busy one no allocation and no copy.
 */
import { Socket } from 'node:net'

const SHARED_BYTES = 32 * 1024
const LARGE_BYTES = 256 * 1024
/** Large buffers kept for the next busy tunnel; further ones are left to the garbage collector. */
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

/** The read side of one dialled socket, whoever reads it. */
export interface SocketReader {
  /**
   * Gives what was read to `consume` from now on, in place of whoever had it.
   * @param copyBelow pieces of fewer bytes are copies, which the consumer may keep
   * @param consume returns false to be given no more until the socket is resumed
   */
  start(copyBelow: number, consume: (chunk: Buffer) => boolean): void
  /** Takes back what the consumer was given and has no use for: the next one gets it first. The socket is paused. */
  unread(chunk: Buffer): void
  /** The socket is closed and nothing that was read from it is being written any more. */
  release(): void
}

/**
 * The read side of one dialled socket: hand `onRead` to the dialler, then `start` with whoever consumes the bytes, and
 * again with whoever consumes them from then on.
 */
export class BufferedReader implements SocketReader {
  readonly #buffers: ReadBuffers
  #large: Buffer | undefined
  #quiet = true
  #copyBelow = Number.POSITIVE_INFINITY
  /** What came before there was a consumer, or was not consumed: nearly always nothing. */
  #early: Buffer[] | undefined
  #consume: ((chunk: Buffer) => boolean) | undefined

  constructor(buffers: ReadBuffers) {
    this.#buffers = buffers
  }

  /** For net.connect: `callback` returning false stops reading until the socket is resumed. */
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
      // Nothing that is still being written lies in the large buffer: the next read is into the shared one.
      if (this.#quiet && own.buffer !== view.buffer) this.#giveBack()
      if (this.#consume !== undefined) return this.#consume(own)
      this.#early ??= []
      this.#early.push(own)
      return true
    },
  }

  /**
   * @param copyBelow pieces of fewer bytes are copies, which the consumer may keep
   * @param consume gets each piece; a larger one is a view that is read into again once `consume` has returned true,
   *   or once the socket is resumed after it returned false
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

  /** The socket is closed and nothing that was read from it is being written any more. */
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
 * The read side of a dialled socket that reads for itself, as TLS does: the same for its consumer as one that reads
 * into a buffer of ours.
 */
export class StreamReader implements SocketReader {
  readonly #socket: Socket
  #consume: ((chunk: Buffer) => boolean) | undefined
  #unread: Buffer | undefined

  /** @param socket connected, and nothing read from it yet */
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
  /** Bytes that the old socket had read already. */
  readonly pending: Buffer
}

/**
 * Makes an accepted socket read into a buffer of ours, as a dialled one does.
 *
 * net.Server gives its sockets no `onread`, and every read of theirs allocates 64 KiB: an upload through a tunnel then
 * runs at half the speed of a download. So the connection is moved, once it carries raw bytes, to a new Socket that
 * has one. Node has no documented way to do this; where its parts are not as expected, or the socket is not plain TCP,
 * the socket stays as it is and is only slower.
 *
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
