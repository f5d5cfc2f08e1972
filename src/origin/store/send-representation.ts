/**
 * GET and HEAD of a resource: preconditions, ranges, content (RFC 9110 §9.3.1, §9.3.2, §13.2.2, §14).
 *
 * A response always contains a single version, because it is read from one open file.
 */
import { ProxyError } from '../../errors.js'
import type { Exchange, ResponseContent } from '../../exchange.js'
import { serializeByteranges } from '../../http/byteranges.js'
import { rangeApplies } from '../../http/if-range.js'
import {
  type ByteRange,
  decideRange,
  serializeContentRange,
  serializeUnsatisfiedRange,
} from '../../http/range.js'
import { Outcome } from '../../outcome.js'
import {
  type AnswerContext,
  answer,
  answerEmpty,
  checkPreconditions,
  measuredOf,
  outcomeOf,
  validatorFields,
} from './answers.js'
import { DamagedObject, type OpenObject, validatorsOf } from './object-file.js'
import { serializeRepresentationFields } from './representation-fields.js'

/** A piece of the response: bytes in memory, or a range of the file. */
type Piece = Buffer | ByteRange

/** Fields for content that clients have written: a browser may show it, but must not run it under this host's name. */
const UNTRUSTED = [
  'X-Content-Type-Options',
  'nosniff',
  'Content-Security-Policy',
  "sandbox; default-src 'none'",
] as const

const READ_BYTES = 64 * 1024

/**
 * Sends the response.
 * @param boundary makes the boundary between several ranges
 * @throws ProxyError 412, 416
 */
export async function sendRepresentation(
  context: AnswerContext,
  object: OpenObject,
  boundary: () => string,
): Promise<Outcome> {
  const { exchange, now } = context
  const { fields, length } = object.metadata
  const validators = validatorsOf(object.metadata)
  const validating = validatorFields(context, validators)
  if (checkPreconditions(context, validators) === 'not_modified') return answerEmpty(context, 304, validating)

  const applies = rangeApplies(exchange.head.fields.list, validators, now())
  const range = applies
    ? decideRange(exchange.facts.method, exchange.head.fields.list, length)
    : { kind: 'full' as const }
  const common = [...validating, 'Accept-Ranges', 'bytes', ...UNTRUSTED]
  const represented = [...serializeRepresentationFields(fields), ...common]
  switch (range.kind) {
    case 'full':
      return await send(context, object, 200, represented, length, [{ first: 0, last: length - 1 }])
    case 'single': {
      const contentRange = ['Content-Range', serializeContentRange(range.range, length)]
      const bytes = range.range.last - range.range.first + 1
      return await send(context, object, 206, [...represented, ...contentRange], bytes, [range.range])
    }
    case 'multipart': {
      const parts = serializeByteranges({
        ranges: range.ranges,
        length,
        contentType: fields.contentType,
        boundary: boundary(),
      })
      const { contentType: _, ...kept } = fields
      const typed = ['Content-Type', parts.contentType, ...serializeRepresentationFields(kept), ...common]
      const pieces = [...parts.parts.flatMap(part => [part.head, part.range]), parts.end]
      return await send(context, object, 206, typed, parts.contentLength, pieces)
    }
    case 'unsatisfiable':
      throw new ProxyError('http_request_error', 'no such range', {
        status: 416,
        reason: 'range',
        fields: ['Content-Range', serializeUnsatisfiedRange(length)],
        detail: `The representation has ${length} bytes, and none of them is in the requested range.`,
      })
  }
}

async function send(
  context: AnswerContext,
  object: OpenObject,
  status: number,
  fields: readonly string[],
  contentLength: number,
  pieces: readonly Piece[],
): Promise<Outcome> {
  const { exchange } = context
  const content = answer(context, status, fields, contentLength)
  if (exchange.facts.method === 'HEAD') {
    content.end()
    return outcomeOf(exchange, status, 0)
  }
  const sender = new Sender(exchange, content)
  for (const piece of pieces) {
    if (Buffer.isBuffer(piece)) await sender.write(piece)
    else {
      const error = await sendRange(sender, object, piece)
      if (error === undefined) continue
      content.abort()
      return Outcome.incomplete('origin', status, measuredOf(exchange, sender.bytes), 'failed', error)
    }
  }
  const { aborted } = exchange
  if (aborted !== undefined)
    return Outcome.aborted('origin', aborted, measuredOf(exchange, sender.bytes), status)
  content.end()
  return outcomeOf(exchange, status, sender.bytes)
}

/** @returns the error if the file ends too early or cannot be read */
async function sendRange(
  sender: Sender,
  object: OpenObject,
  range: ByteRange,
): Promise<DamagedObject | undefined> {
  // It is written in the same turn of the event loop as the head, and so sent together with it.
  if (object.content !== undefined) {
    await sender.write(object.content.subarray(range.first, range.last + 1))
    return undefined
  }
  for (let at = range.first; at <= range.last && !sender.gone; ) {
    let bytes: Buffer
    try {
      bytes = await object.read(at, Math.min(READ_BYTES, range.last - at + 1))
    } catch (error) {
      return new DamagedObject(error)
    }
    if (bytes.length === 0) return new DamagedObject(new Error('the file ends too early'))
    await sender.write(bytes)
    at += bytes.length
  }
  return undefined
}

/** Writes content as fast as the client reads it. */
class Sender {
  readonly #content: ResponseContent
  #wake = (): void => {}
  gone = false
  bytes = 0

  constructor(exchange: Exchange, content: ResponseContent) {
    this.#content = content
    exchange.onAborted(() => {
      this.gone = true
      this.#wake()
    })
  }

  async write(chunk: Buffer): Promise<void> {
    if (this.gone) return
    this.bytes += chunk.length
    if (this.#content.write(chunk)) return
    await new Promise<void>(resolve => {
      this.#wake = resolve
      if (this.gone) resolve()
      else this.#content.onDrain(resolve)
    })
  }
}
