/**
 * Two proxies that share a store, as workers and machines do: what is changed through one of them is not answered by
 * the other with what was fetched before (RFC 9111 §4.4).
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { fakeRedis } from '../kit/peers/fake-redis.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { fresh, told } from '../kit/proxies/cached.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'

interface SharedStore {
  /** `cache` of a configuration. */
  readonly yaml: string
  /** Waits until one more invalidation can be seen by all. */
  invalidated(): Promise<void>
}

const STORES: Record<string, (t: Test) => Promise<SharedStore>> = {
  disk: async t => {
    const directory = join(await temporaryDirectory(t), 'cache')
    const lines = (): number => {
      try {
        return readFileSync(join(directory, 'invalidated'), 'latin1').split('\n').length - 1
      } catch {
        return 0
      }
    }
    const invalidated = async (): Promise<void> => {
      await until('an invalidation', () => lines() > 0, { everyMs: OTHER_PROCESS_MS })
    }
    return { yaml: `cache: { store: disk, directory: ${JSON.stringify(directory)} }\n`, invalidated }
  },
  redis: async t => {
    const redis = await fakeRedis(t)
    const invalidated = async (): Promise<void> => {
      await redis.received('HDEL')
    }
    return { yaml: `cache: { store: redis, url: "${redis.url}" }\n`, invalidated }
  },
}

/** A proxy, and a function that sends requests through it, each on a connection of its own. */
async function proxyWith(t: Test, origin: RawOrigin, yaml: string, clock: ManualClock) {
  const proxy = await testProxy(t, `${LOOPBACK_RULES}${yaml}`, { wallClock: clock.now })
  return async (method: string, content = ''): Promise<RawPeer> => {
    const client = await rawClient(t, proxy.port)
    const length = content === '' ? '' : `Content-Length: ${content.length}\r\n`
    client.write(`${method} http://${origin.authority}/a HTTP/1.1\r\nHost: a\r\n${length}\r\n${content}`)
    return client
  }
}

for (const [store, open] of Object.entries(STORES)) {
  for (const began of ['before', 'behind'] as const) {
    t.test(
      `${store}: what one proxy asked for before a POST went through another is not stored, its head having come ${began} that (RFC 9111 §4.4)`,
      async t => {
        const clock = new ManualClock()
        const origin = await rawOrigin(t)
        const { yaml, invalidated } = await open(t)
        const [one, two] = [await proxyWith(t, origin, yaml, clock), await proxyWith(t, origin, yaml, clock)]
        const taken = async (): Promise<RawPeer> => {
          const peer = await origin.accept()
          await peer.until('\r\n\r\n')
          return peer
        }
        const early = await one('GET')
        const old = await taken()
        const head = `HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\nContent-Length: 3\r\n\r\n`
        if (began === 'before') {
          old.write(head)
          await early.until('\r\n\r\n')
        }
        const post = await two('POST', 'x')
        const posted = await taken()
        posted.write(fresh('', 'Connection: close\r\n'))
        await readResponse(post)
        await invalidated()
        old.write(`${began === 'behind' ? head : ''}old`)
        await early.until('old')
        for (const proxy of [one, two]) {
          const client = await proxy('GET')
          const current = await taken()
          current.write(fresh('new', 'Cache-Control: no-store\r\nConnection: close\r\n'))
          t.match(told(await readResponse(client)), [200, 'new', /^sluice;fwd=uri-miss;/])
        }
      },
    )
  }
}
