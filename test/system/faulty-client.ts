/**
 * A client for faulty traffic: it sends bytes, reads responses by their framing, and checks everything it receives for data
 * of other clients.
 */
import { connect } from 'node:net'
import { RawPeer } from '../kit/peers/raw-peer.js'
import { within } from '../kit/until.js'
import type { Random } from '../kit/fakes/random.js'
import { contentFor, tagsIn } from './faulty-origin.js'

/** The addresses of proxy and origins. */
export interface Place {
  readonly proxyPort: number
  readonly adminPort: number
  readonly port: number
  readonly badPort: number
  readonly echoPort: number
}

export interface Answer {
  readonly status: number
  /** By lower-case name. */
  readonly fields: ReadonlyMap<string, string>
  /** The content, without chunk framing. */
  readonly content: string
}

const STATUS_LINE = /^HTTP\/1\.1 (\d{3}) /
/** The longest tag. */
const TAG_LENGTH = 40

export class FaultyClient {
  readonly place: Place
  readonly random: Random
  readonly #number: number
  readonly #peers = new Set<RawPeer>()
  /** The tag of the exchange in progress. */
  #own = new Set<string>()
  #tags = 0
  #foreign: string | undefined

  constructor(number: number, random: Random, place: Place) {
    this.#number = number
    this.random = random
    this.place = place
  }

  /** Makes a unique tag. */
  tag(): string {
    const tag = `tag-${this.#number}-${this.#tags++}.`
    this.#own.add(tag)
    return tag
  }

  pick<T>(list: readonly T[]): T {
    return list[this.random(list.length)] as T
  }

  /** A URL in any form: with the address, with a name that resolves to it, or for an entry of `origins`. */
  target(path: string): string {
    const host = this.pick(['127.0.0.1', 'good.test', undefined])
    return host === undefined ? `/up${path}` : `http://${host}:${this.place.port}${path}`
  }

  /** The same for the faulty origin. */
  badTarget(path: string): string {
    const host = this.pick(['127.0.0.1', 'good.test', undefined])
    return host === undefined ? `/bad${path}` : `http://${host}:${this.place.badPort}${path}`
  }

  async connect(port = this.place.proxyPort): Promise<RawPeer> {
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true })
    const peer = new RawPeer(socket)
    this.#peers.add(peer)
    let end = ''
    socket.on('data', (chunk: Buffer) => {
      end = end.slice(-TAG_LENGTH) + chunk.toString('latin1')
      for (const tag of tagsIn(end)) if (!this.#own.has(tag)) this.#foreign ??= tag
    })
    const connected = new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('close', () => reject(new Error('no connection')))
    })
    await within('a connection', connected)
    return peer
  }

  /** Resolves when the client is closed completely. @throws if it has received another client's data */
  async finish(): Promise<void> {
    for (const peer of this.#peers) {
      peer.destroy()
      await peer.closed()
    }
    this.#peers.clear()
    this.#own = new Set()
    const foreign = this.#foreign
    this.#foreign = undefined
    if (foreign !== undefined) throw new Error(`got ${foreign}`)
  }
}

/** A request head, possibly a malformed one. @param target a path without a host is for `localhost` */
export function head(method: string, target: string, ...fields: string[]): string {
  const [, host = 'localhost'] = /^http:\/\/([^/]+)/.exec(target) ?? []
  return [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...fields, '', ''].join('\r\n')
}

export function chunksOf(content: string, size: number): string {
  let text = ''
  for (let at = 0; at < content.length; at += size) {
    const chunk = content.slice(at, at + size)
    text += `${chunk.length.toString(16)}\r\n${chunk}\r\n`
  }
  return `${text}0\r\n\r\n`
}

/** The final response. @throws if it is incomplete */
export async function readAnswer(peer: RawPeer, method = 'GET'): Promise<Answer> {
  const text = await peer.until('\r\n\r\n')
  const status = Number(STATUS_LINE.exec(text)?.[1] ?? 0)
  if (status === 0) throw new Error(`not a status line: ${JSON.stringify(text)}`)
  if (status < 200 && status !== 101) return await readAnswer(peer, method)
  const lines = text.split('\r\n').slice(1, -2)
  const fields = new Map(
    lines.map(line => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
    }),
  )
  const isEmpty =
    method === 'HEAD' || status === 204 || status === 101 || (method === 'CONNECT' && status < 300)
  return { status, fields, content: isEmpty ? '' : await readContent(peer, fields) }
}

async function readContent(peer: RawPeer, fields: Answer['fields']): Promise<string> {
  const length = fields.get('content-length')
  if (length !== undefined) return await peer.until(Number(length))
  if (fields.get('transfer-encoding') !== 'chunked') return await peer.untilEnd()
  let content = ''
  for (;;) {
    const size = Number.parseInt(await peer.until('\r\n'), 16)
    const chunk = await peer.until(size + 2)
    if (size === 0) return content
    content += chunk.slice(0, -2)
  }
}

/** @throws if it is not one of these */
export function expectStatus({ status, content }: Answer, ...expected: number[]): void {
  if (!expected.includes(status))
    throw new Error(`answered ${status} instead of ${expected}: ${content.slice(0, 300)}`)
}

/** Checks that the response is the origin's for this request. */
export function expectContent(answer: Answer, tag: string, bytes: number): void {
  expectStatus(answer, 200)
  if (answer.content !== contentFor(tag, bytes)) throw new Error(`got ${answer.content.slice(0, 100)}`)
}

/** @throws if more bytes arrive before the end */
export async function expectEnd(peer: RawPeer): Promise<void> {
  const rest = await peer.untilEnd()
  if (rest !== '') throw new Error(`more than was asked for: ${JSON.stringify(rest.slice(0, 300))}`)
}
