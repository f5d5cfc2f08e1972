/**
 * Where the lines of the log go: a file descriptor, through a buffer, so that a line costs no system call.
 *
 * Whatever reads the log may stall, go away or run out of room, and the proxy serves on: no write to a pipe waits
 * in the way of the event loop, none throws, and what can not be written is lost rather than kept without bound, and the loss is told.
 */
import { errorCode } from '../errors.js'
import { pause } from '../pause.js'
import { fstatSync, write, writeSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

const writeBytes = promisify(write)

/** From here on the buffer is written to a file without waiting for the interval. */
const BUFFER_LENGTH = 32 * 1024
/**
 * The same where another thread writes: the way there and back takes 100 µs whatever is written. Against 32 KiB this takes
 * what the log's output costs of forwarded GETs from 8.0 % of the processor time to 6.6 %.
 */
const THREAD_BUFFER_LENGTH = 128 * 1024
/** What a stalled reader may cost of memory; lines beyond it are lost. */
const MAX_BUFFER_LENGTH = 8 * 1024 * 1024
const FLUSH_INTERVAL_MS = 200
/** How long a flush waits for a reader that has stalled. */
const FLUSH_LIMIT_MS = 1000
/** Pause before a descriptor that is full (EAGAIN) is tried again. */
const RETRY_MS = 10
const LF = 10

/** A line in the text that tells of a loss. */
interface Told {
  /** Where it ends, in characters. */
  readonly end: number
  /** How many lines more than itself are lost when it is. */
  readonly more: number
}

export class LogSink {
  readonly #fd: number
  /** A file takes everything at once: handing the write to another thread would only cost more. */
  readonly #isFile: boolean
  /** How much is written without waiting for the interval. */
  readonly #enough: number
  readonly #maxLength: number
  readonly #tellLost: (lines: number) => string
  /** Lines that no line of the log tells of yet. */
  #lost = 0
  #lostInAll = 0
  #fault: string | undefined
  #text = ''
  /** Of the text that waits. */
  #told: Told[] = []
  /** What was written last has no line end. */
  #torn = false
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
    this.#enough = this.#isFile ? BUFFER_LENGTH : THREAD_BUFFER_LENGTH
    this.#maxLength = maxLength
  }

  /** The system's code for why the last lines that it did not take are lost. */
  get fault(): string | undefined {
    return this.#fault
  }

  /** How many lines were lost so far; those that tell of a loss do not count. */
  get lostLines(): number {
    return this.#lostInAll
  }

  /** @param line whole lines, with their line ends */
  write(line: string): void {
    if (this.#text.length + line.length > this.#maxLength) {
      this.#lost += lineEnds(line)
      this.#lostInAll += lineEnds(line)
      return
    }
    this.#admitLoss()
    this.#text += line
    if (this.#text.length >= this.#enough) void this.#start()
    else this.#timer ??= setTimeout(() => void this.#start(), FLUSH_INTERVAL_MS).unref()
  }

  /** Resolves when all lines so far are written, or lost, or when the reader has not taken them in time. */
  async flush(): Promise<void> {
    const limit = new AbortController()
    await Promise.race([this.#writeAll(), pause(FLUSH_LIMIT_MS, limit.signal)])
    limit.abort()
  }

  #admitLoss(): void {
    if (this.#lost === 0) return
    this.#text += this.#tellLost(this.#lost)
    this.#told.push({ end: this.#text.length, more: this.#lost - 1 })
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
      const [text, told] = [this.#text, this.#told]
      this.#text = ''
      this.#told = []
      await this.#writeText(text, told)
    } while (this.#text.length >= this.#enough)
  }

  async #writeText(text: string, told: readonly Told[]): Promise<void> {
    const start = this.#torn ? '\n' : ''
    const bytes = Buffer.from(start + text)
    let written = 0
    try {
      while (written < bytes.length) written += await this.#writeSome(bytes.subarray(written))
    } catch (error) {
      this.#fault = errorCode(error) ?? String(error)
      const rest = bytes.subarray(Math.max(written, start.length))
      const lines = lineEnds(rest.toString('latin1'))
      const toldAgain = told.filter(({ end }) => Buffer.byteLength(start + text.slice(0, end)) > written)
      this.#lost += toldAgain.reduce((sum, { more }) => sum + more, lines)
      this.#lostInAll += lines - toldAgain.length
    }
    if (written > 0) this.#torn = bytes[written - 1] !== LF
  }

  /** @returns how many bytes were written */
  async #writeSome(bytes: Uint8Array): Promise<number> {
    try {
      if (this.#isFile) return writeSync(this.#fd, bytes)
      return (await writeBytes(this.#fd, bytes, 0, bytes.length, null)).bytesWritten
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error
      await delay(RETRY_MS)
      return 0
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
