/**
 * The state of a server connection as two tables: what has been read of the request, and what has been written of the
 * response (RFC 9112 §9.3, §9.6).
 *
 * An event that is not in its table is a bug of this program, never an error of the peer, and throws: a response cannot
 * begin twice, nothing is written after its end, and the next request does not begin before both sides are done.
 */
type RequestState = 'idle' | 'content' | 'done' | 'broken'
type ResponseState = 'idle' | 'owed' | 'content' | 'done' | 'switched'

type RequestEvent = 'head' | 'end' | 'broken' | 'next'
type ResponseEvent = 'owe' | 'interim' | 'head' | 'end' | 'switch' | 'next'

const REQUEST: Readonly<Record<RequestState, Partial<Record<RequestEvent, RequestState>>>> = {
  idle: { head: 'content', broken: 'broken' },
  content: { end: 'done', broken: 'broken' },
  done: { next: 'idle', broken: 'broken' },
  broken: { broken: 'broken' },
}

const RESPONSE: Readonly<Record<ResponseState, Partial<Record<ResponseEvent, ResponseState>>>> = {
  idle: { owe: 'owed' },
  owed: { interim: 'owed', head: 'content', switch: 'switched' },
  content: { end: 'done' },
  done: { next: 'idle' },
  switched: {},
}

export class ConnectionState {
  #request: RequestState = 'idle'
  #response: ResponseState = 'idle'

  get request(): RequestState {
    return this.#request
  }

  get response(): ResponseState {
    return this.#response
  }

  onRequest(event: RequestEvent): void {
    const next = REQUEST[this.#request][event]
    if (next === undefined) throw new Error(`request ${event} while ${this.#request}`)
    this.#request = next
  }

  onResponse(event: ResponseEvent): void {
    const next = RESPONSE[this.#response][event]
    if (next === undefined) throw new Error(`response ${event} while ${this.#response}`)
    this.#response = next
  }
}
