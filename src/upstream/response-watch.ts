/**
 * What the parsers behind the senders do not tell, read from the bytes in front of them: the version a response
 * begins with (RFC 9112 §2.3), a status line without an end (§4), and bytes that come when no request is out.
 *
 * Both parsers take `HTTP/2.0`, `HTTP/0.9` and `RTSP/1.0` for HTTP/1.1, and one of them does not say which version it
 * read, which Via and the rules of framing depend on. One counts no bytes before the first field. An interim response is
 * followed by another one, of which the same is asked (RFC 9110 §15.2). Bytes on an idle connection belong to nobody:
 * left there, they would be the answer to the next request, whoever sends it.
 */

const VERSION_BYTES = 'HTTP/1.1'.length
const START_BYTES = 'HTTP/1.1 200'.length
const VERSION = /^HTTP\/1\.([01])$/
/** Behind 101 nothing follows that is HTTP. */
const INTERIM = /^HTTP\/1\.[01] 1(?!01)/
const CR = 0x0d
const LF = 0x0a
const NOTHING = new Uint8Array()

/** Listens to one connection's bytes; `observe` is to see them before the parser does. */
export class ResponseWatch {
  readonly #maxLineBytes: number
  readonly #onStray: () => void
  #onForeign: () => void = () => {}
  #onOverlong: () => void = () => {}
  #state: 'idle' | 'start' | 'line' | 'fields' | 'passing' = 'idle'
  /** Version and status, as far as they have come. */
  #start = ''
  #minor: 0 | 1 = 1
  #lineBytes = 0
  /** Of the fields of an interim response. */
  #isEmptyLine = true

  /**
   * @param maxLineBytes of a status line, and of empty lines in front of it
   * @param onStray called with each piece that comes when nothing was asked
   */
  constructor(maxLineBytes: number, onStray: () => void) {
    this.#maxLineBytes = maxLineBytes
    this.#onStray = onStray
  }

  /** The minor version of the response that began last. */
  get minor(): 0 | 1 {
    return this.#minor
  }

  /**
   * @param onForeign called when what begins is not an HTTP/1.0 or HTTP/1.1 response
   * @param onOverlong called when its first line is longer than one may be
   */
  expect(onForeign: () => void, onOverlong: () => void): void {
    this.#onForeign = onForeign
    this.#onOverlong = onOverlong
    this.#begin()
  }

  /** The answer is complete: nothing more is to come. */
  rest(): void {
    this.#state = 'idle'
  }

  readonly observe = (chunk: Uint8Array): void => {
    if (this.#state === 'idle') this.#onStray()
    for (let rest = chunk; rest.length > 0; ) rest = this.#read(rest)
  }

  #begin(): void {
    this.#state = 'start'
    this.#start = ''
    this.#lineBytes = 0
  }

  /** @returns what stands behind what was read */
  #read(chunk: Uint8Array): Uint8Array {
    switch (this.#state) {
      case 'start':
        return this.#readStart(chunk)
      case 'line':
        return this.#readLine(chunk)
      case 'fields':
        return this.#readFields(chunk)
      case 'idle':
      case 'passing':
        return NOTHING
    }
  }

  /** Empty lines in front are skipped, as the parsers skip them: some origins send one behind their content. */
  #readStart(chunk: Uint8Array): Uint8Array {
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number
      this.#lineBytes += 1
      if (this.#lineBytes > this.#maxLineBytes) return this.#fail(this.#onOverlong)
      if (this.#start === '' && (byte === CR || byte === LF)) continue
      this.#start += String.fromCharCode(byte)
      if (this.#start.length === VERSION_BYTES) {
        if (!VERSION.test(this.#start)) return this.#fail(this.#onForeign)
        this.#minor = this.#start.endsWith('0') ? 0 : 1
      }
      if (this.#start.length < START_BYTES) continue
      this.#state = 'line'
      return chunk.subarray(at + 1)
    }
    return NOTHING
  }

  #readLine(chunk: Uint8Array): Uint8Array {
    const end = chunk.indexOf(LF)
    this.#lineBytes += end === -1 ? chunk.length : end
    if (this.#lineBytes > this.#maxLineBytes) return this.#fail(this.#onOverlong)
    if (end === -1) return NOTHING
    this.#isEmptyLine = true
    this.#state = INTERIM.test(this.#start) ? 'fields' : 'passing'
    return chunk.subarray(end + 1)
  }

  #readFields(chunk: Uint8Array): Uint8Array {
    for (const [at, byte] of chunk.entries()) {
      if (byte !== LF) {
        if (byte !== CR) this.#isEmptyLine = false
      } else if (this.#isEmptyLine) {
        this.#begin()
        return chunk.subarray(at + 1)
      } else this.#isEmptyLine = true
    }
    return NOTHING
  }

  #fail(tell: () => void): Uint8Array {
    this.#state = 'passing'
    tell()
    return NOTHING
  }
}
