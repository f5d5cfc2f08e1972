/**
 * The invariants of the reader for any input: it terminates, with messages or a single ProxyError; how the input is split
 * makes no difference; and accepted messages are well-formed.
 */
import { isToken } from '../../src/http/token.js'
import type { HeadLimits } from '../../src/http1/byte-queue.js'
import { type ReadMessage, type Transcript, transcribe } from '../kit/peers/transcript.js'

/** Limits that are low enough for short inputs to exceed them. */
export const FUZZ_LIMITS: HeadLimits = { headerBytes: 120, headerFields: 6, targetBytes: 40 }

const VALUE = /^(?![\t ])[\t\x20-\x7e\x80-\xff]*(?<![\t ])$/
const TARGET = /^[\x21-\x7e]+$/
const ERROR = /^(?:400|414|431|501|505) [a-z_]+: [\x20-\x7e]+$/

/**
 * @param pieces the same input, split
 * @throws Error that says which invariant is violated
 */
export function checkReader(input: Buffer, pieces: readonly Buffer[], limits = FUZZ_LIMITS): Transcript {
  const whole = transcribe([input], limits)
  for (const pulls of ['all', 'one', 'none'] as const) {
    const cut = transcribe(pieces, limits, pulls)
    if (!sameTranscript(whole, cut)) {
      throw new Error(`cut, pulling ${pulls}: ${JSON.stringify(cut)} is not ${JSON.stringify(whole)}`)
    }
  }
  if (whole.error !== undefined && !ERROR.test(whole.error)) throw new Error(`error ${whole.error}`)
  for (const message of whole.messages) checkMessage(message, limits)
  return whole
}

function checkMessage(message: ReadMessage, limits: HeadLimits): void {
  const { method, target, fields, framing, content, trailers } = message
  if (!isToken(method)) throw new Error('method is not a token')
  if (!TARGET.test(target) || target.length > limits.targetBytes) throw new Error('bad target')
  checkFields(fields, limits)
  checkFields(trailers ?? [], limits)
  const names = fields.filter((_, i) => i % 2 === 0).map(name => name.toLowerCase())
  const framed = names.filter(name => name === 'content-length' || name === 'transfer-encoding')
  if (framed.length > 1) throw new Error('two framing fields')
  if (framing === 'chunked' && framed[0] !== 'transfer-encoding') throw new Error('chunked without its field')
  if (framing !== 'chunked' && framed[0] === 'transfer-encoding') throw new Error('transfer coding ignored')
  if (
    framing.startsWith('length ') &&
    trailers !== undefined &&
    content.length !== Number(framing.slice(7))
  ) {
    throw new Error('content does not have its declared length')
  }
  if (framing === 'none' && content !== '') throw new Error('content without framing')
}

function checkFields(fields: readonly string[], limits: HeadLimits): void {
  if (fields.length % 2 !== 0 || fields.length / 2 > limits.headerFields) throw new Error('number of fields')
  fields.forEach((text, i) => {
    if (i % 2 === 0 ? !isToken(text) : !VALUE.test(text)) throw new Error(`bad field ${JSON.stringify(text)}`)
  })
}

function sameTranscript(a: Transcript, b: Transcript): boolean {
  const { messages } = b
  return (
    a.error === b.error &&
    a.buffered === b.buffered &&
    a.inHead === b.inHead &&
    a.messages.length === messages.length &&
    a.messages.every((message, i) => sameMessage(message, messages[i] as ReadMessage))
  )
}

function sameMessage(a: ReadMessage, b: ReadMessage): boolean {
  return (
    a.method === b.method &&
    a.target === b.target &&
    a.minor === b.minor &&
    a.framing === b.framing &&
    a.content === b.content &&
    sameList(a.fields, b.fields) &&
    (a.trailers === undefined || b.trailers === undefined
      ? a.trailers === b.trailers
      : sameList(a.trailers, b.trailers))
  )
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, i) => text === b[i])
}
