/**
 * What the parsers behind the senders do not tell, read from the bytes in front of them: the version a response
 * begins with (RFC 9112 §2.3), and bytes that come when no request is out.
 *
 * Both parsers take `HTTP/2.0`, `HTTP/0.9` and `RTSP/1.0` for HTTP/1.1, and one of them does not say which version it
 * read, which Via and the rules of framing depend on. Bytes on an idle connection belong to nobody: left there, they
 * would be the answer to the next request, whoever sends it.
 */

const VERSION_BYTES = 8
const VERSION = /^HTTP\/1\.([01])$/
const CR = 0x0d
const LF = 0x0a

/** Listens to one connection's bytes; `observe` is to see them before the parser does. */
export class ResponseWatch {
  readonly #onStray: () => void
  #onForeign: () => void = () => {}
  #state: 'idle' | 'version' | 'passing' = 'idle'
  #version = ''

  /** @param onStray called with each piece that comes when nothing was asked */
  constructor(onStray: () => void) {
    this.#onStray = onStray
  }

  /** The minor version of the response that began last. */
  get minor(): 0 | 1 {
    return this.#version.endsWith('0') ? 0 : 1
  }

  /** @param onForeign called when what begins is not an HTTP/1.0 or HTTP/1.1 response */
  expect(onForeign: () => void): void {
    this.#onForeign = onForeign
    this.#state = 'version'
    this.#version = ''
  }

  /** The answer is complete: nothing more is to come. */
  rest(): void {
    this.#state = 'idle'
  }

  readonly observe = (chunk: Uint8Array): void => {
    if (this.#state === 'passing') return
    if (this.#state === 'version') this.#read(chunk)
    else this.#onStray()
  }

  /** Empty lines in front are skipped, as the parsers skip them: some origins send one behind their content. */
  #read(chunk: Uint8Array): void {
    for (const byte of chunk) {
      if (this.#version === '' && (byte === CR || byte === LF)) continue
      this.#version += String.fromCharCode(byte)
      if (this.#version.length < VERSION_BYTES) continue
      this.#state = 'passing'
      if (!VERSION.test(this.#version)) this.#onForeign()
      return
    }
  }
}
