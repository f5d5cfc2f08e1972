/** An exchange without a connection: the test provides its content, and sees its response. */
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
import { NO_CLIENT_LIMITS } from '../../../src/limits/client-limits.js'
import type { RequestHead } from '../../../src/http1/request-reader.js'
import type { ResponseHead } from '../../../src/http1/response-writer.js'
import type { Subject } from '../../../src/pipeline/exchange-observer.js'
import type { Aborted } from '../../../src/outcome.js'
import { A_PLACE } from './no-limits.js'

export interface FakeRequest {
  /** GET by default. */
  readonly method?: Method
  /** `/` by default. */
  readonly target?: string
  readonly minor?: 0 | 1
  readonly fields?: Fields
  /** Length of the content, 0 by default; undefined for chunked content. */
  readonly length?: number | undefined
  /** Bytes of content that were already passed to a consumer. */
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
  /** The exchange as handlers receive it. */
  readonly admitted: AdmittedExchange
  responded: boolean
  aborted: Aborted | undefined

  /** The consumer that has started the content. */
  consumer: ContentConsumer | undefined
  /** How often the content was resumed. */
  resumed = 0
  /** The calls that make up the response, in order: `inform 103`, `respond 200 5`, `write 5`, `end`, `abort`. */
  readonly answered: string[] = []
  /** The final head; undefined before it. */
  readonly heads: ResponseHead[] = []
  /** Whether the client does not keep up, so that writes return false. */
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
      limits: NO_CLIENT_LIMITS,
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

  /** The client disconnects. */
  leave(): void {
    this.#abort({ kind: 'gone', closeReason: 'client_gone' })
  }

  /** The request fails, with this error as its response. */
  fail(error: ProxyError): void {
    this.#abort({ kind: 'failed', closeReason: 'failed', error })
  }

  #abort(aborted: Aborted): void {
    this.aborted ??= aborted
    this.#aborted.abort()
  }

  /** The client reads what was written. */
  drain(): void {
    this.congested = false
    this.#drained()
  }
}
