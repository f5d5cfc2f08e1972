/** Records the events of one request in order. */
import type { ProxyError } from '../../src/errors.js'
import type { ContentConsumer, RequestContent } from '../../src/exchange.js'
import type { Fields } from '../../src/http/fields.js'
import type { ReceivedHead } from '../../src/http1/response-reader.js'
import type { CacheOutcome } from '../../src/outcome.js'
import type { Flow, UpstreamEvents, UpstreamRequest } from '../../src/upstream/sender.js'
import type { Socket } from 'node:net'

/** A request without content. */
export const REQUEST: UpstreamRequest = {
  method: 'GET',
  path: '/',
  host: 'a.test',
  fields: [],
  content: undefined,
  sendsZeroLength: false,
  expectContinue: false,
  upgrade: undefined,
  cached: undefined,
}

export class Recorder implements UpstreamEvents {
  readonly told: string[] = []
  readonly heads: ReceivedHead[] = []
  readonly failures: { error: ProxyError; retry: string }[] = []
  readonly done: Promise<void>
  content = ''
  flow: Flow | undefined
  /** The socket and the bytes of an upgraded connection. */
  socket: Socket | undefined
  rest = ''
  /** Whether to pause the response after each piece. */
  isPausing = false
  /** Called with each line before it is recorded. */
  onTold: (line: string) => void = () => {}
  /** Called with `isSent` of the event `connected`. */
  onConnected: (isSent: boolean) => void = () => {}
  #done: () => void = () => {}

  constructor() {
    this.done = new Promise(resolve => {
      this.#done = resolve
    })
  }

  connected(_address: string, connectMs: number | undefined, isSent: boolean): void {
    this.#tell(connectMs === undefined ? 'reused' : 'connected')
    this.onConnected(isSent)
    if (isSent) this.#tell('sent')
  }
  sent(): void {
    this.#tell('sent')
  }
  interim(head: ReceivedHead): void {
    this.#tell(`interim ${head.status}`)
  }
  cached({ result }: CacheOutcome): void {
    this.#tell(`cached ${result}`)
  }
  responded(head: ReceivedHead, flow: Flow): void {
    this.heads.push(head)
    this.flow = flow
    this.#tell(`responded ${head.status}`)
  }
  data(chunk: Uint8Array): void {
    this.content += Buffer.from(chunk).toString('latin1')
    if (this.isPausing) this.flow?.pause()
    this.#tell(`data ${chunk.length}`)
  }
  ended(trailers: Fields): void {
    this.#tell(`ended ${trailers.join(' ')}`.trim())
    this.#done()
  }
  failed(error: ProxyError, retry: string): void {
    this.failures.push({ error, retry })
    this.#tell(`failed ${retry}`)
    this.#done()
  }
  upgraded(head: ReceivedHead, socket: Socket, rest: Uint8Array): void {
    this.socket = socket
    this.rest = Buffer.from(rest).toString('latin1')
    this.#tell(`upgraded ${head.status}`)
    this.#done()
  }

  #tell(line: string): void {
    this.onTold(line)
    this.told.push(line)
  }
}

/** Request content that a test provides piece by piece. */
export class GivenContent implements RequestContent {
  readonly length: number | undefined
  bytes = 0
  isStopped = false
  resumed = 0
  #consumer: ContentConsumer | undefined
  readonly #atOnce: readonly string[]

  /** @param atOnce content provided as soon as it is started, with the end if it is complete */
  constructor(length: number | undefined, ...atOnce: readonly string[]) {
    this.length = length
    this.#atOnce = atOnce
  }

  start(consumer: ContentConsumer): void {
    this.#consumer = consumer
    this.isStopped = false
    for (const piece of this.#atOnce) this.give(piece)
    if (this.#atOnce.length > 0 && this.bytes === this.length) this.end()
  }

  /** @returns whether the consumer takes more; undefined without a consumer */
  give(piece: string | Buffer): boolean | undefined {
    const chunk = Buffer.from(piece as string, 'latin1')
    this.bytes += chunk.length
    return this.#consumer?.data(chunk)
  }

  end(trailers: Fields = []): void {
    this.#consumer?.end(trailers)
  }

  stop(): void {
    this.isStopped = true
    this.#consumer = undefined
  }

  resume(): void {
    this.resumed += 1
  }
}
