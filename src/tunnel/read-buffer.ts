/**
 * Where the bytes of a dialled socket are read into.
 *
 * Node allocates 64 KiB for every read of an ordinary socket. Sockets that we dial take a buffer of ours instead. All quiet
 * tunnels share one small buffer, whose content is copied out before anybody else can read into it; a tunnel that
 * fills it is given a large one of its own, which goes back when the tunnel turns quiet. So an idle tunnel costs no
 * buffer, and a busy one no allocation and no copy.
 */
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
  readonly #early: Buffer[] = []
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
    for (let chunk = this.#early.shift(); chunk !== undefined; chunk = this.#early.shift()) consume(chunk)
  }

  unread(chunk: Buffer): void {
    if (chunk.length > 0) this.#early.unshift(chunk)
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
