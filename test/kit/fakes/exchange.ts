/** An exchange that no connection stands behind: the test gives its content, and sees what it is answered. */
import type { ProxyError } from '../../../src/errors.js'
import type { AdmittedExchange, ReceivedExchange } from '../../../src/pipeline/admitted-exchange.js'
import type {
  ContentConsumer,
  RequestContent,
  RequestFacts,
  ResponseContent,
  Switched,
} from '../../../src/exchange.js'
import { FieldSection } from '../../../src/http/field-section.js'
import type { Fields } from '../../../src/http/fields.js'
import type { Method } from '../../../src/http/method.js'
import { parseRequestTarget } from '../../../src/http/request-target.js'
import type { OutgoingTrace } from '../../../src/http/trace-context.js'
import type { RequestHead } from '../../../src/http1/request-reader.js'
import type { ResponseHead } from '../../../src/http1/response-writer.js'
import type { Subject } from '../../../src/pipeline/exchange-observer.js'
import type { Aborted } from '../../../src/outcome.js'
import { A_PLACE } from './no-limits.js'

export interface FakeRequest {
  /** GET when left out. */
  readonly method?: Method
  /** `/` when left out. */
  readonly target?: string
  readonly minor?: 0 | 1
  readonly fields?: Fields
  /** Of the content, 0 when left out; undefined for chunked content. */
  readonly length?: number | undefined
  /** Bytes of it that were given out already. */
  readonly bytes?: number
  readonly expectContinue?: boolean
  readonly trace?: OutgoingTrace | undefined
  readonly responded?: boolean
}

export class FakeExchange implements ReceivedExchange {
  readonly id = '1'
  readonly head: RequestHead
  readonly facts: RequestFacts
  readonly content: RequestContent
  readonly clientAddress = '127.0.0.1'
  readonly clientCertificate = undefined
  readonly encrypted = false
  readonly slot = A_PLACE
  readonly bytesPassed = 0
  /** As handlers get it. */
  readonly admitted: AdmittedExchange
  responded: boolean
  aborted: Aborted | undefined

  /** Whoever has started the content. */
  consumer: ContentConsumer | undefined
  /** How often it was continued. */
  resumed = 0
  /** What was done to answer it, in order: `inform 103`, `respond 200 5`, `write 5`, `end`, `abort`. */
  readonly answered: string[] = []
  /** The final head, once there is one. */
  readonly heads: ResponseHead[] = []
  /** Whether the client is behind: writes say so. */
  congested = false

  readonly #aborted = new AbortController()
  #drained = (): void => {}

  constructor(request: FakeRequest = {}) {
    const { method = 'GET', target = '/', minor = 1, fields = [], expectContinue = false } = request
    const length = 'length' in request ? request.length : 0
    this.head = { method, target, minor, fields: FieldSection.of(fields), framing: { kind: 'none' } }
    this.facts = { method, target: parseRequestTarget(method, target), host: undefined, expectContinue }
    this.content = {
      length,
      bytes: request.bytes ?? 0,
      start: consumer => {
        this.consumer = consumer
      },
      stop: () => {
        this.consumer = undefined
      },
      resume: () => {
        this.resumed += 1
      },
    }
    const subject: Subject = {
      id: this.id,
      client: 'ci',
      clientAddress: this.clientAddress,
      kind: 'forward',
      method,
    }
    const { trace } = request
    this.admitted = {
      exchange: this,
      subject,
      rule: 'web',
      dnsMs: undefined,
      partition: undefined,
      trace,
    }
    this.responded = request.responded ?? false
  }

  get signal(): AbortSignal {
    return this.#aborted.signal
  }

  onAborted(callback: (aborted: Aborted) => void): void {
    const tell = (): void => {
      if (this.aborted !== undefined) callback(this.aborted)
    }
    if (this.signal.aborted) tell()
    else this.signal.addEventListener('abort', tell, { once: true })
  }

  sendInterim(status: number): void {
    this.answered.push(`inform ${status}`)
  }

  respond(head: ResponseHead): ResponseContent {
    this.responded = true
    this.heads.push(head)
    this.answered.push(`respond ${head.status} ${head.contentLength ?? 'unknown'}`)
    return {
      write: chunk => {
        this.answered.push(`write ${chunk.length}`)
        return !this.congested
      },
      onDrain: callback => {
        this.#drained = callback
      },
      end: trailers => void this.answered.push(`end ${trailers?.join(' ') ?? ''}`.trim()),
      abort: () => void this.answered.push('abort'),
    }
  }

  switchTo(): Switched {
    throw new Error('there is no connection to hand over')
  }

  refuse(error: ProxyError): void {
    this.answered.push(`refuse ${error.status}`)
  }

  becameTunnel(): void {}

  stopTunnel(): void {}

  reported(): void {}

  /** The client goes away. */
  leave(): void {
    this.#abort({ kind: 'gone', closeReason: 'client_gone' })
  }

  /** The request breaks off, and is to be answered with this. */
  fail(error: ProxyError): void {
    this.#abort({ kind: 'failed', closeReason: 'failed', error })
  }

  #abort(aborted: Aborted): void {
    this.aborted ??= aborted
    this.#aborted.abort()
  }

  /** The client takes what was written. */
  drain(): void {
    this.congested = false
    this.#drained()
  }
}
