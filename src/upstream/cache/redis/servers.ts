/**
 * The servers that hold what is stored: one, or the masters of a cluster (Redis Cluster specification). Each has two
 * connections, so that no answer about an entry waits behind the content of others.
 *
 * The client's own cluster is not used: it queues, retries and follows redirections, where for a cache the answer to a
 * key that has moved is a miss and a look at the map.
 */
import type { LookupFunction } from 'node:net'
import { parseRedisUrl } from '../../../config/redis-url.js'
import { slotOf } from './keys.js'
import { NotConnected, openClient, RedisLink, type Reply, type ServerOptions } from './link.js'

/** How often the map of a cluster is looked at when nothing has happened. */
const REFRESH_MS = 60_000
/** The pause between two looks when something has. */
const SOON_MS = 1_000
const DISCOVER_MS = 5_000

export interface ServersOptions {
  /** One, or several of a cluster; they share what the first says of TLS and credentials. */
  readonly urls: readonly string[]
  readonly ca: string | undefined
  readonly lookup: LookupFunction | undefined
}

export interface ServersEvents {
  /** A server can be reached again, and is not asked for anything before this has ended. */
  prepare(server: RedisServer): Promise<void>
  /** One is slow or cannot be reached. */
  failed(error: unknown): void
  /** All of them are up. */
  recovered(): void
}

export class RedisServer {
  readonly address: string
  /** For entries. */
  readonly records: RedisLink
  /** For content. */
  readonly content: RedisLink

  constructor(server: ServerOptions, events: ServersEvents, changed: () => void) {
    this.address = addressOf(server)
    const down = (error: unknown) => {
      events.failed(error)
      changed()
    }
    const link = { up: changed, down }
    this.records = new RedisLink(server, { ...link, prepare: () => events.prepare(this) })
    this.content = new RedisLink(server, { ...link, prepare: async () => {} })
  }

  get up(): boolean {
    return this.records.up && this.content.up
  }

  reconnect(error: unknown): void {
    this.records.reconnect(error)
    this.content.reconnect(error)
  }

  async close(): Promise<void> {
    await Promise.all([this.records.close(), this.content.close()])
  }
}

interface Slots {
  readonly first: number
  readonly last: number
  readonly server: RedisServer
}

export class RedisServers {
  readonly #seeds: readonly ServerOptions[]
  readonly #events: ServersEvents
  readonly #servers = new Map<string, RedisServer>()
  readonly #closing = new AbortController()
  readonly #closed: Promise<unknown>[] = []
  /** Of a cluster whose map is known; undefined for a server by itself. */
  #slots: readonly Slots[] | undefined
  #discovering: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  /** Whether the timer is one that does not wait for the next regular look. */
  #soon = false

  /** @throws RangeError for a URL that is none */
  constructor(options: ServersOptions, events: ServersEvents) {
    const { ca, lookup } = options
    const urls = options.urls.map(parseRedisUrl)
    this.#seeds = urls.map(url => ({ url, ca, lookup }))
    this.#events = {
      ...events,
      prepare: server => events.prepare(server),
      failed: error => events.failed(this.#withoutSecrets(error)),
    }
    const [first] = this.#seeds
    if (first === undefined) throw new RangeError('a store in Redis needs a URL')
    if (urls.length > 1) {
      this.#slots = []
      this.#discover()
    } else this.#add(first)
  }

  /** @returns undefined where it is not known */
  serverOf(tag: string): RedisServer | undefined {
    if (this.#slots === undefined) return this.#servers.values().next().value
    const slot = slotOf(tag)
    return this.#slots.find(({ first, last }) => first <= slot && slot <= last)?.server
  }

  get all(): readonly RedisServer[] {
    return [...this.#servers.values()]
  }

  /** Whether the servers of all keys are known. */
  get complete(): boolean {
    return this.#slots === undefined || this.#slots.length > 0
  }

  get up(): boolean {
    return this.#servers.size > 0 && this.all.every(server => server.up)
  }

  /** What a server answered may say that it is not the right one any more. */
  answered(error: unknown, server: RedisServer): void {
    // The link reports that its connection has ended; a key of another type is damage, and so a miss.
    const message = error instanceof Error ? error.message : ''
    if (error instanceof NotConnected || message.startsWith('WRONGTYPE ')) return
    if (/^(?:MOVED|ASK|CLUSTERDOWN) /.test(message)) this.#discoverIn(SOON_MS)
    else if (message.startsWith('READONLY ')) {
      if (this.#slots === undefined) server.reconnect(error)
      else this.#discoverIn(SOON_MS)
    } else this.#events.failed(error)
  }

  /** A server did what it had refused before, as far as is known. */
  succeeded(): void {
    if (this.up) this.#events.recovered()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#timer)
    await this.#discovering
    await Promise.all([...this.all.map(server => server.close()), ...this.#closed])
  }

  #add(options: ServerOptions): RedisServer {
    const server = new RedisServer(options, this.#events, () => this.#changed())
    this.#servers.set(server.address, server)
    return server
  }

  #changed(): void {
    if (this.#closing.signal.aborted) return
    if (this.up) this.#events.recovered()
    else if (this.#slots !== undefined) this.#discoverIn(SOON_MS)
  }

  #discoverIn(ms: number): void {
    if (this.#closing.signal.aborted || this.#discovering !== undefined) return
    if (this.#timer !== undefined && this.#soon) return
    clearTimeout(this.#timer)
    this.#soon = ms === SOON_MS
    this.#timer = setTimeout(() => this.#discover(), ms).unref()
  }

  #discover(): void {
    this.#timer = undefined
    this.#discovering = this.#readMap().then(
      () => {
        this.#discovering = undefined
        this.#discoverIn(this.up ? REFRESH_MS : SOON_MS)
      },
      (error: unknown) => {
        this.#discovering = undefined
        if (this.#closing.signal.aborted) return
        this.#events.failed(error)
        this.#discoverIn(SOON_MS)
      },
    )
  }

  /** Asks one server after the other for the map, until one has it. */
  async #readMap(): Promise<void> {
    const known = this.all.filter(server => server.up).map(server => server.address)
    const [seed] = this.#seeds
    if (seed === undefined) return
    const asked = [...known.map(address => at(seed, address)), ...this.#seeds]
    let failure: unknown
    for (const server of asked) {
      if (this.#closing.signal.aborted) return
      try {
        const map = parseMap(await askForMap(server, this.#closing.signal), server)
        if (!this.#closing.signal.aborted) this.#follow(map)
        return
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }

  #follow(map: readonly MasterSlots[]): void {
    const [seed] = this.#seeds
    if (seed === undefined) return
    const slots = map.map(({ first, last, address }) => {
      const server = this.#servers.get(address) ?? this.#add(at(seed, address))
      return { first, last, server }
    })
    for (const [address, server] of this.#servers) {
      if (slots.some(each => each.server === server)) continue
      this.#servers.delete(address)
      this.#closed.push(server.close())
    }
    this.#slots = slots
  }

  /** An error of a server may repeat what it was sent. */
  #withoutSecrets(error: unknown): unknown {
    const secrets = this.#seeds.flatMap(({ url }) => [url.password, url.username])
    const message = error instanceof Error ? error.message : String(error)
    const found = secrets.some(secret => secret !== undefined && message.includes(secret))
    return found ? new Error(message.split(' ', 2).join(' ')) : error
  }
}

interface MasterSlots {
  readonly first: number
  readonly last: number
  readonly address: string
}

async function askForMap(server: ServerOptions, closing: AbortSignal): Promise<Reply> {
  const end = new AbortController()
  const close = () => end.abort()
  closing.addEventListener('abort', close, { once: true })
  const timer = setTimeout(close, DISCOVER_MS)
  const client = openClient(server, end.signal)
  const ended = new Promise<never>((_, reject) => {
    const late = () => reject(new NotConnected(`no map of the cluster within ${DISCOVER_MS} ms`))
    end.signal.addEventListener('abort', late, { once: true })
    client.on('error', reject)
  })
  try {
    await Promise.race([client.connect(), ended])
    return (await Promise.race([client.sendCommand(['CLUSTER', 'SLOTS']), ended])) as Reply
  } finally {
    clearTimeout(timer)
    closing.removeEventListener('abort', close)
    client.destroy()
    end.abort()
  }
}

/**
 * The answer to CLUSTER SLOTS: first and last slot, then the master as host, port and more, then its replicas.
 * @param asked the host of a master that does not know its own
 */
function parseMap(reply: Reply, asked: ServerOptions): MasterSlots[] {
  if (!Array.isArray(reply)) throw new Error('an answer to CLUSTER SLOTS that is no list')
  if (reply.length === 0) throw new Error('a cluster without slots')
  return reply.map(range => {
    const [first, last, master] = Array.isArray(range) ? range : []
    const [host, port] = Array.isArray(master) ? master : []
    if (typeof first !== 'number' || typeof last !== 'number' || typeof port !== 'number') {
      throw new Error('an answer to CLUSTER SLOTS that is no map')
    }
    const name = host instanceof Buffer && host.length > 0 ? host.toString() : asked.url.host
    return { first, last, address: `${name === '?' ? asked.url.host : name} ${port}` }
  })
}

/** With host and port apart: an IPv6 address has colons of its own. */
function addressOf({ url }: ServerOptions): string {
  return url.path ?? `${url.host} ${url.port}`
}

function at(server: ServerOptions, address: string): ServerOptions {
  const [host = '', port] = address.split(' ')
  return { ...server, url: { ...server.url, host, port: Number(port) } }
}
