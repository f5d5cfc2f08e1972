import t, { type Test } from 'tap'
import { parseConfig } from '../../src/index.js'
import { LocalLedger } from '../../src/limits/ledger.js'
import { serializeMetrics } from '../../src/observe/exposition.js'
import {
  Conversation,
  type Message,
  type SupervisorCalls,
  type WorkerCalls,
} from '../../src/supervisor/messages.js'
import { runWorker } from '../../src/supervisor/worker.js'
import { NO_REUSE_PORT } from '../kit/processes/fleet.js'
import { parseExposition } from '../kit/peers/exposition.js'
import { untilFree } from '../kit/peers/free-port.js'
import { rawClient } from '../kit/peers/raw-peer.js'

const load = (rest: string) => {
  const { config, hash, fromFile, files, folder } = parseConfig(
    `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:1" }\nlog: { level: silent }\nshutdown: { drain: 0s }\n${rest}`,
  )
  return { config, hash, fromFile, files, folder }
}

const FIRST = { number: 1, admin: undefined, reusePort: false, bound: undefined }

/** A worker in this process, as its supervisor sees it. */
async function worker() {
  let toWorker: (messages: readonly Message[]) => void = () => {}
  const failed: string[] = []
  const ledger = new LocalLedger(() => 0)
  let onReady = () => {}
  const ready = new Promise<void>(resolve => {
    onReady = resolve
  })
  const conversation = new Conversation<WorkerCalls, SupervisorCalls>(
    { send: messages => toWorker(structuredClone([...messages])) },
    {
      ready: () => {
        onReady()
        return undefined
      },
      failedAttempt: source => {
        failed.push(source)
        return undefined
      },
      acquire: ({ key, limit }) => ledger.acquire(key, limit),
      release: key => {
        ledger.release(key)
        return undefined
      },
      take: ({ key, rate, burst }) => ledger.take(key, rate, burst),
      spend: ({ key, bytes, limit }) => ledger.spend(key, bytes, limit),
    },
  )
  const ended = runWorker({
    send: messages => conversation.receive(structuredClone([...messages])),
    onMessage: listener => {
      toWorker = listener
    },
    onUncaught: () => {},
    pid: 700,
    environment: {},
    openFilesLimit: () => undefined,
  })
  await ready
  return { conversation, ended, failed, ledger }
}

const answer = async (t: Test, port: number, fields: string) => {
  const client = await rawClient(t, port)
  client.write(`OPTIONS * HTTP/1.1\r\nHost: a\r\n${fields}Connection: close\r\n\r\n`)
  const status = (await client.untilEnd()).slice(9, 12)
  client.end()
  return status
}

t.test('is a proxy without an admin listener of its own, and ends when it was drained', async t => {
  const { conversation, ended } = await worker()
  const admin = { host: '127.0.0.1', port: 9 }
  const start = {
    loaded: load(''),
    startId: 'start',
    build: undefined,
    failures: [],
    passedSockets: undefined,
    context: { ...FIRST, number: 2, admin },
  }
  const bound = await conversation.ask('start', start)
  t.same(bound.admin, admin)
  const port = bound.proxy[0]?.port ?? 0
  t.equal(await answer(t, port, ''), '200')
  await conversation.ask('drain', undefined)
  await ended
  await t.resolves(untilFree(port))
})

t.test('listens where the first worker does, if it binds for itself', { skip: NO_REUSE_PORT }, async t => {
  const [first, second] = [await worker(), await worker()]
  const start = {
    loaded: load(''),
    startId: 'start',
    build: undefined,
    failures: [],
    passedSockets: undefined,
    context: { ...FIRST, reusePort: true },
  }
  const bound = await first.conversation.ask('start', start)
  t.same(
    await second.conversation.ask('start', { ...start, context: { ...start.context, number: 2, bound } }),
    bound,
  )
  await first.conversation.ask('drain', undefined)
  t.equal(await answer(t, bound.proxy[0]?.port ?? 0, ''), '200')
  await second.conversation.ask('drain', undefined)
  await Promise.all([first.ended, second.ended])
})

t.test('reports its errors', async t => {
  const { conversation, ended } = await worker()
  await t.rejects(conversation.ask('reload', load('')), { message: 'a worker that was not started' })
  await conversation.ask('drain', undefined)
  await ended
})

t.test('reloads, reports failed attempts, and counts those of others', async t => {
  const folder = t.testdir({ users: 'alice:$2y$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e\n' })
  const { conversation, ended, failed } = await worker()
  const start = {
    loaded: load('clients: []'),
    startId: 'start',
    build: undefined,
    failures: [['127.0.0.1', [59_999, 20, 10]]] as const,
    passedSockets: undefined,
    context: FIRST,
  }
  const starting = conversation.ask('start', start)
  const meanwhile = conversation.ask('failedAttempt', '127.0.0.1')
  const bound = await starting
  await meanwhile
  const port = bound.proxy[0]?.port ?? 0
  t.equal(await answer(t, port, ''), '403')
  const next = load(`clients: [{ name: a, basic: { htpasswd_file: ${folder}/users } }]`)
  t.same(await conversation.ask('reload', next), { needsRestart: [], closedTunnels: 0 })
  const credentials = `Proxy-Authorization: Basic ${Buffer.from('alice:wrong').toString('base64')}\r\n`
  t.equal(await answer(t, port, credentials), '407')
  t.same(failed, ['127.0.0.1'])
  // And two from its start that still count, and one while it started.
  for (let i = 0; i < 16; i++) await conversation.ask('failedAttempt', '127.0.0.1')
  t.equal(await answer(t, port, credentials), '429')
  t.same(failed, ['127.0.0.1'], 'what others have told is not told again')
  await conversation.ask('drain', undefined)
  await ended
})

t.test('reports its metrics, with those of its process', async t => {
  const { conversation, ended } = await worker()
  await t.rejects(conversation.ask('metrics', undefined), { message: 'a worker that was not started' })
  const build = { version: '1.2.3', node: '20.0.0' }
  const start = {
    loaded: load(''),
    startId: 'start',
    build,
    failures: [],
    passedSockets: undefined,
    context: FIRST,
  }
  const bound = await conversation.ask('start', start)
  await answer(t, bound.proxy[0]?.port ?? 0, '')
  const { text } = await serializeMetrics([await conversation.ask('metrics', undefined)], 'text')
  const metrics = parseExposition(text, 'text')
  t.equal(metrics.sum('sluice_requests_total', 'method="OPTIONS"'), 1)
  t.equal(metrics.value('sluice_build_info{version="1.2.3",node="20.0.0"}'), 1)
  t.ok((metrics.value('process_resident_memory_bytes') ?? 0) > 0)
  await conversation.ask('drain', undefined)
  await ended
})

t.test('limits are counted in the ledger of its supervisor', async t => {
  const { conversation, ended, ledger } = await worker()
  const limits = load('limits: { connections_per_client: 2 }')
  const start = {
    loaded: limits,
    startId: 'start',
    build: undefined,
    failures: [],
    passedSockets: undefined,
    context: FIRST,
  }
  const port = (await conversation.ask('start', start)).proxy[0]?.port ?? 0
  // Reserved by another worker.
  ledger.acquire('connections 127.0.0.1', 2)
  const first = await rawClient(t, port)
  first.write('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await first.until(12)).slice(9, 12), '200')
  t.equal(await answer(t, port, ''), '429')
  ledger.release('connections 127.0.0.1')
  t.equal(await answer(t, port, ''), '200')
  await conversation.ask('drain', undefined)
  await ended
})
