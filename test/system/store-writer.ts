/**
 * A process that writes to a store over sockets of its own until it is killed, and says on its standard output what was
 * acknowledged. Arguments: directory, a name of its own, and which resources it has for itself.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:net'
import { Connection } from '../../src/listener/connection.js'
import type { ConnectionExchange } from '../../src/listener/connection-exchange.js'
import { Store } from '../../src/origin/store/store.js'

const [directory = '', name = ''] = process.argv.slice(2)
let ids = 0
const store = await Store.open({
  directory,
  maxObjectBytes: 1 << 30,
  maxTotalBytes: 1 << 30,
  methods: ['GET', 'PUT', 'DELETE', 'PATCH'],
  now: Date.now,
  date: () => 'today',
  randomId: () => `${name}-${process.pid}-${++ids}`,
})

const serve = async (exchange: ConnectionExchange): Promise<void> => {
  const { target } = exchange.facts
  const outcome = await store.serve(exchange, 'path' in target ? target.path : '/', true)
  if (outcome.error !== undefined) exchange.refuse(outcome.error)
}
const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
  new Connection(socket, {
    limits: {
      headerTimeoutMs: 60_000,
      bodyIdleMs: 60_000,
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
    serve: exchange => void serve(exchange),
    refused: () => {},
    released: () => {},
  })
})
await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
const address = server.address()
if (address === null || typeof address === 'string') throw new Error('no port')
const url = `http://127.0.0.1:${address.port}`

async function write(path: string, round: number): Promise<void> {
  // Content that says by itself whether it is whole.
  const filler = `${round} `.repeat((round % 7) * 3000 + 1)
  const body = `${createHash('sha256').update(filler).digest('hex')} ${filler}`
  const isDelete = round % 5 === 4
  const response = await fetch(url + path, isDelete ? { method: 'DELETE' } : { method: 'PUT', body })
  if (![201, 204, 404].includes(response.status)) throw new Error(`${path}: ${response.status}`)
  process.stdout.write(`${path} ${isDelete ? '-' : response.headers.get('etag')}\n`)
}

async function writeOn(path: string): Promise<never> {
  for (let round = 0; ; round++) {
    process.stdout.write(`${path} ?\n`)
    await write(path, round)
  }
}

async function shareOn(): Promise<never> {
  for (let round = 0; ; round++) {
    const response = await fetch(`${url}/shared/${round % 3}`, { method: 'PUT', body: `${name} ${round}` })
    if (response.status !== 201 && response.status !== 204) throw new Error(`shared: ${response.status}`)
  }
}

await Promise.all([...[0, 1, 2, 3].map(i => writeOn(`/${name}/${i}`)), shareOn()])
