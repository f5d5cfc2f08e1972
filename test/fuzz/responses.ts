/** Inputs that are almost responses: a corpus of valid ones, and mutations of them. */
import fc from 'fast-check'
import { FRAGMENTS, type Mutation, mutate } from './mutation.js'

const lines = (...texts: string[]): string => `${texts.join('\r\n')}\r\n`

/** Complete responses to a GET, after which the connection is closed. */
export const RESPONSES: readonly Buffer[] = [
  `${lines('HTTP/1.1 200 OK', 'Date: x', 'Content-Length: 5', '')}hello`,
  `${lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '')}5;a="b"\r\nhello\r\n1\r\n!\r\n0\r\nX-T: a\r\n\r\n`,
  `${lines('HTTP/1.1 200 OK', 'Connection: close', '')}hello`,
  `${lines('HTTP/1.0 404 Not Found', 'Server: x/1', '')}hello`,
  `${lines('HTTP/1.0 200 OK', 'Connection: keep-alive', 'Content-Length: 5', '')}hello`,
  lines('HTTP/1.1 204 No Content', 'ETag: "a"', ''),
  lines('HTTP/1.1 304 Not Modified', 'Content-Length: 5', ''),
  lines('HTTP/1.1 200', 'content-length: 0', 'Set-Cookie: a', 'Set-Cookie: b', ''),
  `${lines('HTTP/1.1 103 Early Hints', 'Link: a', '')}${lines('HTTP/1.1 200 OK', 'Content-Length: 2', '')}hi`,
  lines('HTTP/1.1 500 \xe9', 'X: \xff', 'Keep-Alive: timeout=5', 'Content-Length: 0', ''),
].map(text => Buffer.from(text, 'latin1'))

const position = fc.nat(200)
const count = fc.integer({ min: 1, max: 32 })
const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: position, bits: fc.integer({ min: 1, max: 255 }) }),
  fc.record({ kind: fc.constant('delete' as const), at: position, count }),
  fc.record({ kind: fc.constant('insert' as const), at: position, fragment: fc.nat(FRAGMENTS.length - 1) }),
  fc.record({ kind: fc.constant('duplicate' as const), at: position, count }),
)

/** A response of the corpus with a few changes. */
export const mutatedResponse: fc.Arbitrary<Buffer> = fc
  .tuple(fc.constantFrom(...RESPONSES), fc.array(mutation, { minLength: 1, maxLength: 4 }))
  .map(([base, mutations]) => mutations.reduce(mutate, base))

/** Random bytes, fragments of the grammar, or an input that is almost a response. */
export const anyResponse: fc.Arbitrary<Buffer> = fc.oneof(
  fc.uint8Array({ maxLength: 100 }).map(bytes => Buffer.from(bytes)),
  fc.array(fc.constantFrom(...FRAGMENTS), { maxLength: 20 }).map(parts => Buffer.concat(parts)),
  mutatedResponse,
)
