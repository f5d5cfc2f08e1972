/** The program with `cache: redis` and the real Redis: what clients get while it is killed, stopped, and back. */
import t, { type Test } from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { type ScriptedOrigin, scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { needs } from '../kit/processes/command.js'
import { configured, FREE, type Fleet, RULES, startFleet } from '../kit/processes/fleet.js'
import { installProgram } from '../kit/processes/program.js'
import { fresh } from '../kit/proxies/cached.js'
import { until } from '../kit/until.js'
import { startRedis } from './redis-program.js'

const skip = needs('redis-server', 'redis-cli')
const program = skip === false ? await installProgram(t) : []
const CLIENTS = 4
/** Content that is lost while it is read is fetched from the origin, which must be known to have the same. */
const FIELDS = 'Cache-Control: max-age=60\r\nETag: "1"\r\n'
const CONTENT = 'x'.repeat(100_000)

async function world(t: Test) {
  const redis = await startRedis(t)
  const origin = await scriptedOrigin(t, ({ target }) => fresh(`${target} ${CONTENT}`, FIELDS))
  const yaml = `listen: { ${FREE} }\n${RULES}\ncache: { store: redis, url: "${redis.url}" }`
  const proxy = await startFleet(t, program, await configured(t, yaml, 1))
  return { redis, origin, proxy, get: (path: string) => get(t, proxy, origin, path) }
}

/** @returns whether it was a hit; throws unless it is the whole response */
async function get(t: Test, proxy: Fleet, origin: ScriptedOrigin, path: string): Promise<boolean> {
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://${origin.authority}${path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`)
  const { status, body, fields } = await readResponse(client)
  client.end()
  if (status !== 200 || body !== `${path} ${CONTENT}`) throw new Error(`${status} and ${body.length} bytes`)
  return (fields['cache-status'] ?? '').startsWith('sluice;hit')
}

/** Clients that request the same few paths, one after another, until they are stopped. */
function traffic(ask: (path: string) => Promise<boolean>) {
  let isOver = false
  const counts = { answered: 0, hits: 0 }
  const clients = Array.from({ length: CLIENTS }, async (_, client) => {
    for (let i = 0; !isOver; i++) {
      if (await ask(`/${client}/${i % 3}`)) counts.hits++
      counts.answered++
    }
  })
  const failed = Promise.all(clients)
  return {
    counts,
    /** Waits for this many more responses. */
    more: async (name: 'answered' | 'hits', count: number) => {
      const enough = counts[name] + count
      await Promise.race([until(`${count} ${name}`, () => counts[name] >= enough), failed])
    },
    stop: async () => {
      isOver = true
      await failed
    },
  }
}

t.test(
  'while Redis is killed no request fails, all go to their origins, and there are hits again afterwards',
  { skip },
  async t => {
    const { redis, origin, proxy, get } = await world(t)
    const { counts, more, stop } = traffic(get)
    await more('hits', 20)
    await redis.kill()
    await proxy.said(/"event":"cache_store_down"/)
    // The requests that were in progress.
    await more('answered', 2 * CLIENTS)
    const [hits, asked] = [counts.hits, origin.requests.length]
    await more('answered', 40)
    t.equal(counts.hits, hits, 'nothing is found while it is down')
    t.ok(origin.requests.length >= asked + 40 - CLIENTS)
    await redis.start()
    await proxy.said(/"event":"cache_store_up"/)
    await more('hits', 20)
    await stop()
    t.equal([...proxy.stdout.matchAll(/"event":"cache_store_down"/g)].length, 1, 'one line')
    t.notMatch(proxy.stdout, /"close_reason":"(?!complete)/)
    proxy.child.kill('SIGTERM')
    t.equal(await proxy.exited, 0)
  },
)

t.test(
  'a stopped Redis delays no request, and its entries are found when it continues',
  { skip },
  async t => {
    const { redis, origin, proxy, get } = await world(t)
    await until('a hit', () => get('/kept'))
    const { counts, more, stop } = traffic(get)
    await more('hits', 20)
    redis.signal('SIGSTOP')
    t.match(await proxy.said(/"event":"cache_store_down","error":"([^"]*)"/), { 1: 'no answer within 50 ms' })
    const asked = origin.requests.length
    await more('answered', 40)
    t.ok(origin.requests.length > asked)
    redis.signal('SIGCONT')
    await proxy.said(/"event":"cache_store_up"/)
    await more('hits', 20)
    await stop()
    t.ok(counts.answered > 0)
    const before = origin.requests.length
    t.equal(await until('a hit', () => get('/kept')), true)
    t.equal(origin.requests.length, before, 'what was stored before is there still')
    t.notMatch(proxy.stdout, /"close_reason":"(?!complete)/)
    proxy.child.kill('SIGTERM')
    t.equal(await proxy.exited, 0)
  },
)
