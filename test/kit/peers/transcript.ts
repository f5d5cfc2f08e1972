/**
 * Runs the request reader on an input, in one piece or divided, and records the result in a form in which two runs can
 * be compared: the events with their content joined, the error, and the unread bytes.
 */
import { ProxyError } from '../../../src/errors.js'
import type { HeadLimits } from '../../../src/http1/byte-queue.js'
import { RequestReader } from '../../../src/http1/request-reader.js'

export const LIMITS: HeadLimits = { headerBytes: 16_384, headerFields: 100, targetBytes: 8192 }

/** A message as far as it was read: `content` in latin1, `trailers` when its end was read. */
export interface ReadMessage {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  readonly fields: readonly string[]
  readonly framing: string
  content: string
  trailers?: readonly string[]
}

export interface Transcript {
  readonly messages: ReadMessage[]
  /** `status reason: message` of the ProxyError that ended the run. */
  error?: string
  /** Without an error: the number of unread bytes, and whether a head has begun. */
  buffered?: number
  inHead?: boolean
}

/**
 * @param pieces the input in order
 * @param pulls how many events are requested after each piece: none, one (a slow caller), or all
 * @throws anything thrown other than a ProxyError, and an Error for events in an impossible order
 */
export type Pulls = 'none' | 'one' | 'all'

export function transcribe(pieces: readonly Buffer[], limits = LIMITS, pulls: Pulls = 'all'): Transcript {
  const reader = new RequestReader(limits)
  const transcript: Transcript = { messages: [] }
  let budget = 16
  try {
    for (const piece of pieces) {
      reader.input.push(piece)
      budget += piece.length * 2 + 2
      if (pulls !== 'none')
        budget = pull(reader, transcript, budget, pulls === 'one' ? 1 : Number.POSITIVE_INFINITY)
    }
    pull(reader, transcript, budget, Number.POSITIVE_INFINITY)
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error
    if (reader.next() !== undefined) throw new Error('an event after the error')
    transcript.error = `${error.status} ${error.reason}: ${error.message}`
    return transcript
  }
  transcript.buffered = reader.input.length
  transcript.inHead = reader.inHead
  return transcript
}

/** Takes all available events; more than the bytes can produce mean a reader that does not stop. */
function pull(reader: RequestReader, { messages }: Transcript, budget: number, most: number): number {
  let left = budget
  for (let pulled = 0; pulled < most; pulled++) {
    const event = reader.next()
    if (event === undefined) break
    if (--left < 0) throw new Error('more events than the input can hold')
    const open = messages.at(-1)?.trailers === undefined ? messages.at(-1) : undefined
    if (event.type === 'head') {
      if (open !== undefined) throw new Error('a head inside a message')
      const { method, target, minor, fields, framing } = event.head
      const kind = framing.kind === 'length' ? `length ${framing.length}` : framing.kind
      messages.push({ method, target, minor, fields: fields.list, framing: kind, content: '' })
    } else if (open === undefined) {
      throw new Error(`${event.type} outside a message`)
    } else if (event.type === 'data') {
      if (event.chunk.length === 0) throw new Error('empty data')
      open.content += event.chunk.toString('latin1')
    } else {
      open.trailers = event.trailers
    }
  }
  return left
}

/**
 * The transcript of an input that must be read the same in one piece, byte by byte, and in every two parts, whether
 * events are requested after each piece or after all of them.
 * @param input latin1 text or bytes
 * @throws Error naming the division that made a difference
 */
export function readEveryWay(input: string | Buffer, limits = LIMITS): Transcript {
  const bytes = typeof input === 'string' ? Buffer.from(input, 'latin1') : input
  const whole = transcribe([bytes], limits)
  const expected = JSON.stringify(whole)
  const compare = (pieces: readonly Buffer[], split: string) => {
    for (const pulls of ['all', 'one', 'none'] as const) {
      const actual = JSON.stringify(transcribe(pieces, limits, pulls))
      if (actual !== expected) throw new Error(`${split}, pulling ${pulls}: ${actual} is not ${expected}`)
    }
  }
  compare(
    Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)),
    'byte by byte',
  )
  for (let at = 1; at < bytes.length; at++) {
    compare([bytes.subarray(0, at), bytes.subarray(at)], `split at ${at}`)
  }
  return whole
}
