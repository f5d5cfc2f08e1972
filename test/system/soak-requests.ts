/**
 * Requests at a rate that does not depend on responses: GET and POST, some with chunked content, on kept connections and on
 * new ones. Each has a unique path, by which it is found in the log and at the origin.
 */
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import type { Failure } from './soak-fleet.js'
import { answerTo } from './soak-origin.js'

export interface Answer {
  /** Whether the connection is closed after it. */
  readonly closes: boolean
}

export interface RequestOptions {
  readonly path: string
  readonly method: 'GET' | 'POST'
  /** Pieces of content, sent one after another; chunked if there are several. */
  readonly content?: readonly (Buffer | Promise<Buffer>)[]
  /** Whether the connection may be reused. */
  readonly kept: boolean
}

/** The result of each request: it succeeds or fails. */
export type Result = { readonly answer: Answer } | { readonly failure: Failure; readonly begun: boolean }

const TICK_MS = 5
const SMALL = Buffer.alloc(2000, 's')
const LARGE = Buffer.alloc(200_000, 'l')

export class SoakRequests {
  readonly failures: Failure[] = []
  /** Whether it failed without a byte of a response. */
  readonly unanswered: Failure[] = []
  readonly #proxyPort: number
  readonly #originPort: number
  readonly #agent = new Agent({ keepAlive: true, scheduling: 'fifo' })
  readonly #connections = new WeakMap<Socket, { port: number | undefined; readonly at: number }>()
  readonly #open = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined
  #sent = 0
  #answered = 0

  constructor(proxyPort: number, originPort: number) {
    this.#proxyPort = proxyPort
    this.#originPort = originPort
  }

  get sent(): number {
    return this.#sent
  }

  get answered(): number {
    return this.#answered
  }

  start(perSecond: number): void {
    const startedAt = performance.now()
    this.#timer = setInterval(() => {
      const due = ((performance.now() - startedAt) / 1000) * perSecond
      while (this.#sent < due) this.#next()
    }, TICK_MS)
  }

  /** Stops sending requests. */
  stop(): void {
    clearInterval(this.#timer)
  }

  /** Resolves when all requests so far have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#open)
  }

  close(): void {
    this.stop()
    this.#agent.destroy()
  }

  #next(): void {
    const number = this.#sent++
    const path = `/soak/${number}`
    const kept = number % 2 === 0
    const large = number % 40 === 1
    const content = large ? LARGE : SMALL
    const send =
      number % 4 < 2
        ? this.send({ path, method: 'GET', kept })
        : this.send({ path, method: 'POST', kept, content: number % 3 === 0 ? [content, SMALL] : [content] })
    const done = send.then(result => {
      this.#open.delete(done)
      if ('answer' in result) this.#answered += 1
      else if (result.begun) this.failures.push(result.failure)
      else this.unanswered.push(result.failure)
    })
    this.#open.add(done)
  }

  /** Never rejects. */
  send({ path, method, content = [], kept }: RequestOptions): Promise<Result> {
    const authority = `127.0.0.1:${this.#originPort}`
    const sent = request({
      host: '127.0.0.1',
      port: this.#proxyPort,
      method,
      path: `http://${authority}${path}`,
      headers: { Host: authority },
      agent: kept ? this.#agent : false,
    })
    return new Promise(resolve => {
      let socket: Socket | undefined
      let begun = false
      const fail = (what: string): void => {
        const connection = socket && this.#connections.get(socket)
        const failure: Failure = {
          what: `${method} ${path}${sent.reusedSocket ? ' on a kept connection' : ''}: ${what}`,
          clientPort: connection?.port,
          connectedAt: connection?.at ?? performance.now(),
          failedAt: performance.now(),
          path,
        }
        resolve({ failure, begun })
      }
      sent.on('socket', used => {
        socket = used
        this.#know(used)
      })
      sent.on('error', (error: NodeJS.ErrnoException) => fail(`${error.code} ${error.message}`))
      sent.on('response', response => {
        begun = true
        void this.#read(response, path).then(
          answer => resolve({ answer }),
          (error: Error) => fail(error.message),
        )
      })
      void write(sent, content)
    })
  }

  #know(socket: Socket): void {
    if (this.#connections.has(socket)) return
    const connection = { port: socket.localPort, at: performance.now() }
    this.#connections.set(socket, connection)
    socket.once('connect', () => {
      connection.port = socket.localPort
    })
  }

  async #read(response: IncomingMessage, path: string): Promise<Answer> {
    let text = ''
    for await (const chunk of response.setEncoding('latin1')) text += chunk
    const [, bytes = ''] = text.split(' ')
    if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${text.slice(0, 100)}`)
    if (text !== answerTo(path, Number(bytes))) throw new Error(`another answer: ${text.slice(0, 100)}`)
    return { closes: response.headers.connection === 'close' }
  }
}

async function write(sent: ClientRequest, content: RequestOptions['content'] = []): Promise<void> {
  if (content.length === 1) sent.setHeader('Content-Length', ((await content[0]) ?? '').length)
  for (const piece of content) sent.write(await piece)
  sent.end()
}
