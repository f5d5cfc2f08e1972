/** A store on real sockets, and requests to it in bytes. */
import { createServer } from 'node:net'
import type { Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { resourceMethods } from '../../../src/http/allow.js'
import { Connection } from '../../../src/listener/connection.js'
import type { ReceivedExchange } from '../../../src/pipeline/admitted-exchange.js'
import { Store, type StoreOptions } from '../../../src/origin/store/store.js'
import type { Outcome } from '../../../src/outcome.js'
import { A_PLACE } from '../fakes/no-limits.js'
import { Changes, until } from '../until.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'
import { type RawResponse, readResponse } from '../peers/read-response.js'

/** 2026-03-01T12:00:00.250Z */
export const START_MS = Date.UTC(2026, 2, 1, 12, 0, 0, 250)
export const DATE = 'Sun, 01 Mar 2026 12:00:00 GMT'

const LIMITS = {
  headerTimeoutMs: 60_000,
  bodyIdleMs: 60_000,
  bodyMinRate: 0,
  keepaliveIdleMs: 60_000,
  headerBytes: 1 << 20,
  headerFields: 100,
  targetBytes: 65_536,
}

export interface TestRequest {
  readonly method?: string
  /** Field lines, without Host and Content-Length. */
  readonly fields?: readonly string[]
  /** One character for each byte; sent with its Content-Length. */
  readonly body?: string
  readonly host?: string
}

export interface StoreServer {
  readonly directory: string
  readonly store: Store
  readonly port: number
  /** Milliseconds since the epoch, for the store; the test sets it. */
  clock: number
  mayWrite: boolean
  /** The address of the client; the test sets it. */
  network: string
  readonly outcomes: readonly Outcome[]
  connect(): Promise<RawPeer>
  /** One request on a connection of its own. */
  request(target: string, request?: TestRequest): Promise<RawResponse>
  /** Waits for the `count`th outcome. */
  outcome(count: number): Promise<Outcome>
}

export function requestText(
  target: string,
  { method = 'GET', fields = [], body, host = 'store.test' }: TestRequest = {},
): string {
  const length = body === undefined ? [] : [`Content-Length: ${body.length}`]
  const lines = [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...fields, ...length]
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`
}

export async function storeServer(
  t: Test,
  options: Partial<StoreOptions> = {},
  directory: string = `${t.testdir()}/data`,
): Promise<StoreServer> {
  let count = 0
  const outcomes: Outcome[] = []
  const changes = new Changes()
  const state = { clock: START_MS, mayWrite: true, network: '127.0.0.1' }
  const store = await Store.open({
    directory,
    maxObjectBytes: 1 << 30,
    maxTotalBytes: 1 << 30,
    targetBytes: LIMITS.targetBytes,
    isHostNamed: true,
    methods: resourceMethods({ trace: false, extra: [] }),
    now: () => state.clock,
    date: () => DATE,
    randomId: () => `r${process.pid}-${++count}`,
    descriptors: NO_DESCRIPTOR_KEPT,
    evict: 'never',
    unreadable: () => {},
    evicted: () => {},
    ...options,
  })
  const serve = async (exchange: ReceivedExchange): Promise<void> => {
    const { target } = exchange.facts
    const outcome = await store.serve(exchange, 'path' in target ? target.path : '/', {
      network: state.network,
      mayWrite: state.mayWrite,
    })
    if (outcome.error !== undefined) exchange.refuse(outcome.error)
    outcomes.push(outcome)
    changes.notify()
    exchange.reported()
  }
  const settings = {
    limits: LIMITS,
    draining: false,
    extraMethods: [],
    now: () => 0,
    date: () => DATE,
    nextId: () => 'id',
    serve: (exchange: ReceivedExchange) => void serve(exchange),
  }
  const events = {
    malformed: () => {},
    released: () => {},
  }
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    new Connection(socket, { address: '127.0.0.1', slot: A_PLACE }, settings, events)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const { port } = address
  t.teardown(async () => {
    changes.end()
    server.close()
    await store.close()
  })
  return Object.assign(state, {
    directory,
    store,
    port,
    outcomes,
    connect: () => rawClient(t, port),
    request: async (target: string, request: TestRequest = {}) => {
      const client = await rawClient(t, port)
      client.write(requestText(target, request))
      const response = await readResponse(client, request.method)
      client.end()
      return response
    },
    outcome: (nth: number) =>
      until(`outcome ${nth} of the store`, () => outcomes[nth - 1], { changes, seen: () => outcomes }),
  })
}

/** Puts content at a path and returns its entity tag. */
export async function put(server: StoreServer, target: string, body: string, type?: string): Promise<string> {
  const fields = type === undefined ? [] : [`Content-Type: ${type}`]
  const { status, fields: answered, head } = await server.request(target, { method: 'PUT', fields, body })
  if (status !== 201 && status !== 204) throw new Error(`PUT ${target}: ${head}`)
  return answered['etag'] ?? ''
}
