/**
 * A process that writes to a store until it is killed, and prints each write before it starts and when it is acknowledged.
 * Arguments: the directory, a unique name for its resources, and optionally the limit above which the least recently used
 * ones are evicted; with a limit it only PUTs new resources, each of them once.
 */
import { createServer } from 'node:net'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { Connection } from '../../src/listener/connection.js'
import type { ReceivedExchange } from '../../src/pipeline/admitted-exchange.js'
import { Store } from '../../src/origin/store/store.js'
import { A_PLACE } from '../kit/fakes/no-limits.js'
import { contentOf, line, SHARED, type WriteMethod } from './store-journal.js'

const [directory = '', name = '', limit] = process.argv.slice(2)
let ids = 0
const store = await Store.open({
  directory,
  maxObjectBytes: 1 << 30,
  maxTotalBytes: limit === undefined ? 1 << 30 : Number(limit),
  targetBytes: 8192,
  isHostNamed: true,
  methods: ['GET', 'PUT', 'DELETE', 'PATCH'],
  now: Date.now,
  date: () => 'today',
  randomId: () => `${name}-${process.pid}-${++ids}`,
  descriptors: NO_DESCRIPTOR_KEPT,
  evict: limit === undefined ? 'never' : 'least-recently-used',
  unreadable: () => {},
  evicted: () => {},
})

const serve = async (exchange: ReceivedExchange): Promise<void> => {
  const { target } = exchange.facts
  const outcome = await store.serve(exchange, 'path' in target ? target.path : '/', {
    network: 'local',
    mayWrite: true,
  })
  if (outcome.error !== undefined) exchange.refuse(outcome.error)
  exchange.reported()
}
const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
  const settings = {
    limits: {
      headerTimeoutMs: 60_000,
      bodyIdleMs: 60_000,
      bodyMinRate: 0,
      keepaliveIdleMs: 60_000,
      headerBytes: 1 << 20,
      headerFields: 100,
      targetBytes: 8192,
    },
    draining: false,
    extraMethods: [],
    now: () => performance.now(),
    date: () => 'today',
    nextId: () => 'id',
    serve: (exchange: ReceivedExchange) => void serve(exchange),
  }
  new Connection(socket, { address: '127.0.0.1', slot: A_PLACE }, settings, {
    malformed: () => {},
    released: () => {},
  })
})
await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
const address = server.address()
if (address === null || typeof address === 'string') throw new Error('no port')
const url = `http://127.0.0.1:${address.port}`

/** Resolves when the line is written: output that waits for a slow reader would be lost with this process. */
function say(text: string): Promise<void> {
  return new Promise(resolve => process.stdout.write(text, () => resolve()))
}

/** One write, announced and acknowledged on standard output. */
async function write(method: WriteMethod, path: string, round: number): Promise<void> {
  await say(line('?', method, path, round))
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  const content = { headers: { 'Content-Type': type }, body: JSON.stringify(contentOf(round)) }
  const response = await fetch(url + path, { method, ...(method === 'DELETE' ? {} : content) })
  if (response.status !== 201 && response.status !== 204) {
    throw new Error(`${method} ${path}: ${response.status}`)
  }
  await say(line('!', method, response.headers.get('location') ?? path, round))
}

/** Writes its own resource repeatedly. */
async function writeOn(path: string): Promise<never> {
  const methods = ['PUT', 'PATCH', 'PUT', 'PATCH', 'DELETE'] as const
  for (let round = 0; ; round++) await write(methods[round % methods.length] ?? 'PUT', path, round)
}

/** Writes a new resource each time. */
async function fillOn(collection: string): Promise<never> {
  for (let round = 0; ; round++) await write('PUT', collection + round, round)
}

async function postOn(collection: string): Promise<never> {
  for (let round = 0; ; round++) await write('POST', collection, round)
}

/** Changes its own member of a document that all writers change, so that a lost change is detected. */
async function shareOn(): Promise<never> {
  const path = `${SHARED}#${name}`
  for (let round = 0; ; round++) {
    await say(line('?', 'PATCH', path, round))
    const [type, patch] =
      round % 2 === 0
        ? ['merge-patch', { [name]: round }]
        : ['json-patch', [{ op: 'replace', path: `/${name}`, value: round }]]
    const response = await fetch(url + SHARED, {
      method: 'PATCH',
      headers: { 'Content-Type': `application/${type}+json` },
      body: JSON.stringify(patch),
    })
    if (response.status !== 204) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    await say(line('!', 'PATCH', path, round))
  }
}

const three = [0, 1, 2]
await Promise.all(
  limit === undefined
    ? [...three.map(i => writeOn(`/${name}/${i}`)), postOn(`/${name}/posts/`), shareOn()]
    : three.map(i => fillOn(`/${name}/${i}/`)),
)
