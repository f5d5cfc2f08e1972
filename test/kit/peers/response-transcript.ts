/**
 * Runs the response reader on an input, in one piece or divided, and records the result in a form in which two runs can
 * be compared: the events with their content joined, the error, and the unread bytes.
 */
import { ProxyError } from '../../../src/errors.js'
import type { AnsweredRequest } from '../../../src/http1/body-framing.js'
import { type ResponseLimits, ResponseReader } from '../../../src/http1/response-reader.js'

export const RESPONSE_LIMITS: ResponseLimits = { headerBytes: 16_384, headerFields: 100 }

export const GET: AnsweredRequest = { method: 'GET', upgrade: false }

export interface ReadResponse {
  readonly status: number
  readonly minor: 0 | 1
  readonly reason: string
  readonly fields: readonly string[]
  readonly length: number | undefined
  /** Status codes of the interim responses before it. */
  readonly interim: readonly number[]
  /** In latin1. */
  content: string
  /** Defined when its end was read. */
  trailers?: readonly string[]
  /** Whether another request could have followed; defined when its end was read. */
  persistent?: boolean
  /** The bytes after a response that ends HTTP. */
  rest?: string
}

export interface ResponseTranscript {
  readonly responses: ReadResponse[]
  /** `status type: message` of the ProxyError that ended the run. */
  error?: string
  /** Without an error: the number of unread bytes, and whether the expected response has begun. */
  buffered?: number
  begun?: boolean
}

export interface ResponseRun {
  /** The requests, each sent when the response to the previous one is complete. */
  readonly requests?: readonly AnsweredRequest[]
  readonly limits?: ResponseLimits
  /** Whether the connection ends after the input. */
  readonly ends?: boolean
  /** Events requested after each piece; all of them after the last. */
  readonly pulls?: 'none' | 'one' | 'all'
}

/** @throws anything thrown other than a ProxyError, and an Error for events in an impossible order */
export function transcribeResponses(
  pieces: readonly Buffer[],
  { requests = [GET], limits = RESPONSE_LIMITS, ends = true, pulls = 'all' }: ResponseRun = {},
): ResponseTranscript {
  const reader = new ResponseReader(limits)
  const run = new Run(reader, requests)
  try {
    for (const piece of pieces) {
      reader.input.push(piece)
      run.budget += piece.length * 2 + 2
      if (pulls !== 'none') run.pull(pulls === 'one' ? 1 : Number.POSITIVE_INFINITY)
    }
    run.pull(Number.POSITIVE_INFINITY)
    if (ends) run.finish()
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error
    if (reader.next() !== undefined || reader.finish() !== undefined)
      throw new Error('an event after the error')
    return { responses: run.responses, error: `${error.status} ${error.type}: ${error.message}` }
  }
  return { responses: run.responses, buffered: reader.input.length, begun: reader.hasBegun }
}

class Run {
  readonly responses: ReadResponse[] = []
  budget = 16
  readonly #reader: ResponseReader
  readonly #requests: AnsweredRequest[]
  #interim: number[] = []

  constructor(reader: ResponseReader, requests: readonly AnsweredRequest[]) {
    this.#reader = reader
    this.#requests = [...requests]
    this.#ask()
  }

  finish(): void {
    // Nothing is sent on a connection that has ended.
    this.#requests.length = 0
    this.take(this.#reader.finish())
  }

  pull(most: number): void {
    for (let pulled = 0; pulled < most; pulled++) {
      const event = this.#reader.next()
      if (event === undefined) return
      if (--this.budget < 0) throw new Error('more events than the input can hold')
      this.take(event)
    }
  }

  take(event: ReturnType<ResponseReader['next']>): void {
    if (event === undefined) return
    const open = this.responses.at(-1)?.trailers === undefined ? this.responses.at(-1) : undefined
    if (event.type === 'interim') {
      if (open !== undefined) throw new Error('an interim response inside a response')
      this.#interim.push(event.head.status)
    } else if (event.type === 'head' || event.type === 'switched') {
      if (open !== undefined) throw new Error('a head inside a response')
      const { status, minor, reason, fields, contentLength } = event.head
      const interim = this.#interim
      this.#interim = []
      const response: ReadResponse = {
        status,
        minor,
        reason,
        fields: fields.list,
        length: contentLength,
        interim,
        content: '',
      }
      if (event.type === 'switched') response.rest = ''
      this.responses.push(response)
    } else if (open === undefined || open.rest !== undefined) {
      throw new Error(`${event.type} outside a response`)
    } else if (event.type === 'data') {
      if (event.chunk.length === 0) throw new Error('empty data')
      open.content += event.chunk.toString('latin1')
    } else {
      open.trailers = event.trailers
      open.persistent = this.#reader.persistent
      this.#ask()
    }
  }

  #ask(): void {
    const request = this.#requests.shift()
    if (request !== undefined) this.#reader.expect(request)
  }
}

/**
 * The transcript of an input that must be read the same in one piece, byte by byte, and in every two parts, however
 * events are requested.
 * @param input latin1 text or bytes
 * @throws Error naming the division that made a difference
 */
export function readResponsesEveryWay(input: string | Buffer, run: ResponseRun = {}): ResponseTranscript {
  const bytes = typeof input === 'string' ? Buffer.from(input, 'latin1') : input
  const whole = transcribeResponses([bytes], run)
  const expected = JSON.stringify(whole)
  const compare = (pieces: readonly Buffer[], split: string): void => {
    for (const pulls of ['all', 'one', 'none'] as const) {
      const actual = JSON.stringify(transcribeResponses(pieces, { ...run, pulls }))
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
