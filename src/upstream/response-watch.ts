/**
 * What the parsers behind the senders do not tell, read from the bytes in front of them: the version a response
 * begins with (RFC 9112 §2.3), a status line without an end (§4), and bytes that come when no request is out.
 *
 * Both parsers take `HTTP/2.0`, `HTTP/0.9` and `RTSP/1.0` for HTTP/1.1, and one of them does not say which version it
 * read, which Via and the rules of framing depend on. One counts no bytes before the first field. Bytes on an idle connection belong to nobody: left there, they
 * would be the answer to the next request, whoever sends it.
 */

const VERSION_BYTES = 8
const VERSION = /^HTTP\/1\.([01])$/
const CR = 0x0d
const LF = 0x0a

/** Listens to one connection's bytes; `observe` is to see them before the parser does. */
export class ResponseWatch {
  readonly #maxLineBytes: number
  readonly #onStray: () => void
  #onForeign: () => void = () => {}
  #onOverlong: () => void = () => {}
  #state: 'idle' | 'version' | 'line' | 'passing' = 'idle'
  #version = ''
  #lineBytes = 0

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
    return this.#version.endsWith('0') ? 0 : 1
  }

  /**
   * @param onForeign called when what begins is not an HTTP/1.0 or HTTP/1.1 response
   * @param onOverlong called when its first line is longer than one may be
   */
  expect(onForeign: () => void, onOverlong: () => void): void {
    this.#onForeign = onForeign
    this.#onOverlong = onOverlong
    this.#state = 'version'
    this.#version = ''
    this.#lineBytes = 0
  }

  /** The answer is complete: nothing more is to come. */
  rest(): void {
    this.#state = 'idle'
  }

  readonly observe = (chunk: Uint8Array): void => {
    if (this.#state === 'passing') return
    if (this.#state === 'version') this.#read(chunk)
    else if (this.#state === 'line') this.#count(chunk)
    else this.#onStray()
  }

  /** Empty lines in front are skipped, as the parsers skip them: some origins send one behind their content. */
  #read(chunk: Uint8Array): void {
    for (const [at, byte] of chunk.entries()) {
      this.#lineBytes += 1
      if (this.#lineBytes > this.#maxLineBytes) {
        this.#state = 'passing'
        this.#onOverlong()
        return
      }
      if (this.#version === '' && (byte === CR || byte === LF)) continue
      this.#version += String.fromCharCode(byte)
      if (this.#version.length < VERSION_BYTES) continue
      if (VERSION.test(this.#version)) {
        this.#state = 'line'
        this.#count(chunk.subarray(at + 1))
      } else {
        this.#state = 'passing'
        this.#onForeign()
      }
      return
    }
  }

  #count(chunk: Uint8Array): void {
    const end = chunk.indexOf(LF)
    this.#lineBytes += end === -1 ? chunk.length : end
    if (end === -1 && this.#lineBytes <= this.#maxLineBytes) return
    this.#state = 'passing'
    if (this.#lineBytes > this.#maxLineBytes) this.#onOverlong()
  }
}
