/**
 * Where the lines of the log go: a file descriptor, through a buffer, so that a line costs no system call.
 *
 * Whatever reads the log may stall, go away or run out of room, and the proxy serves on: no write to a pipe waits
 * in the way of the event loop, none throws, and what can not be written is lost rather than kept without bound, and the loss is told.
 */
import { fstatSync, write, writeSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

const writeBytes = promisify(write)

/** From here on the buffer is written without waiting for the interval. */
const BUFFER_LENGTH = 32 * 1024
/** What a stalled reader may cost of memory; lines beyond it are lost. */
const MAX_BUFFER_LENGTH = 8 * 1024 * 1024
const FLUSH_INTERVAL_MS = 200
/** How long a flush waits for a reader that has stalled. */
const FLUSH_LIMIT_MS = 1000
/** Pause before a descriptor that is full (EAGAIN) is tried again. */
const RETRY_MS = 10

export class LogSink {
  readonly #fd: number
  /** A file takes everything at once: handing the write to another thread would only cost more. */
  readonly #isFile: boolean
  readonly #maxLength: number
  readonly #tellLost: (lines: number) => string
  #lost = 0
  #fault: string | undefined
  #text = ''
  #writing: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  /**
   * @param tellLost makes the line that stands in the place of so many lost ones
   * @param maxLength characters that may wait to be written
   */
  constructor(fd: number, tellLost: (lines: number) => string, maxLength = MAX_BUFFER_LENGTH) {
    this.#fd = fd
    this.#tellLost = tellLost
    this.#isFile = isRegularFile(fd)
    this.#maxLength = maxLength
  }

  /** The system's code for why the last lines that it did not take are lost. */
  get fault(): string | undefined {
    return this.#fault
  }

  /** @param line whole lines, with their line ends */
  write(line: string): void {
    if (this.#text.length + line.length > this.#maxLength) {
      this.#lost += lineEnds(line)
      return
    }
    this.#admitLoss()
    this.#text += line
    if (this.#text.length >= BUFFER_LENGTH) void this.#start()
    else this.#timer ??= setTimeout(() => void this.#start(), FLUSH_INTERVAL_MS).unref()
  }

  /** Resolves when all lines so far are written, or lost, or when the reader has not taken them in time. */
  async flush(): Promise<void> {
    const limit = new AbortController()
    const late = delay(FLUSH_LIMIT_MS, undefined, { signal: limit.signal }).catch(() => {})
    await Promise.race([this.#writeAll(), late])
    limit.abort()
  }

  #admitLoss(): void {
    if (this.#lost > 0) this.#text += this.#tellLost(this.#lost)
    this.#lost = 0
  }

  async #writeAll(): Promise<void> {
    this.#admitLoss()
    while (this.#text !== '' || this.#writing !== undefined) await this.#start()
  }

  #start(): Promise<void> {
    this.#writing ??= this.#writeOut().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  async #writeOut(): Promise<void> {
    do {
      clearTimeout(this.#timer)
      this.#timer = undefined
      let bytes: Uint8Array = Buffer.from(this.#text)
      this.#text = ''
      while (bytes.length > 0) bytes = await this.#writeSome(bytes)
    } while (this.#text.length >= BUFFER_LENGTH)
  }

  /** @returns what is left to write */
  async #writeSome(bytes: Uint8Array): Promise<Uint8Array> {
    try {
      const written = this.#isFile
        ? writeSync(this.#fd, bytes)
        : (await writeBytes(this.#fd, bytes, 0, bytes.length, null)).bytesWritten
      return bytes.subarray(written)
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
      if (code !== 'EAGAIN') {
        this.#fault = code
        this.#lost += lineEnds(Buffer.from(bytes).toString('latin1'))
        return Buffer.alloc(0)
      }
      await delay(RETRY_MS)
      return bytes
    }
  }
}

function lineEnds(text: string): number {
  return text.split('\n').length - 1
}

function isRegularFile(fd: number): boolean {
  try {
    return fstatSync(fd).isFile()
  } catch {
    return false
  }
}
