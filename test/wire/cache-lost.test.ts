/**
 * Content that a store loses while it is being read, behind bytes that the client has had: the rest comes from the
 * origin if it still has the same, and else the message is incomplete, and seen to be so (RFC 9112 §8).
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { fakeRedis } from '../kit/peers/fake-redis.js'
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { fresh, type HeldCached, heldCached } from '../kit/proxies/cached.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'

const CLOSE = 'Connection: close\r\n'
const FIELDS = `Cache-Control: max-age=60\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n${CLOSE}`
/** Bytes before the damage: the first piece of 64 KiB is intact. */
const PIECE = 65_536
/** No two pieces are equal. */
const CONTENT = Array.from({ length: 30_000 }, (_, i) => `${i} `.padStart(10, '-')).join('')

interface Lossy {
  readonly yaml: string
  /** Damages the second piece of what is stored, once it is. */
  damage(): Promise<void>
}

const STORES: Record<string, (t: Test) => Promise<Lossy>> = {
  disk: async t => {
    const directory = join(await temporaryDirectory(t), 'cache')
    const damage = async (): Promise<void> => {
      const name = await until(
        'the content on the disk',
        () => {
          const names = existsSync(directory) ? readdirSync(directory, { recursive: true }).map(String) : []
          const head = names.find(each => each.endsWith('.head'))
          return head && names.find(each => each.endsWith('.body'))
        },
        { everyMs: OTHER_PROCESS_MS },
      )
      const bytes = readFileSync(join(directory, name))
      bytes[PIECE] = (bytes[PIECE] as number) ^ 1
      writeFileSync(join(directory, name), bytes)
    }
    return { yaml: `cache: { store: disk, directory: ${JSON.stringify(directory)} }\n`, damage }
  },
  redis: async t => {
    const redis = await fakeRedis(t)
    const damage = async (): Promise<void> => {
      const content = await until(
        'the content in Redis',
        () => {
          const names = [...redis.hashes.keys()]
          return names.some(name => name.includes(':e:')) && names.find(name => name.includes(':c:'))
        },
        { everyMs: OTHER_PROCESS_MS },
      )
      redis.hashes.get(content)?.delete('1')
    }
    return { yaml: `cache: { store: redis, url: "${redis.url}" }\n`, damage }
  },
}

/** Stores a response, damages it, requests it again, and returns both ends of that exchange. */
async function lost(
  t: Test,
  open: (t: Test) => Promise<Lossy>,
  fields: string,
  range = '',
): Promise<{ world: HeldCached; client: RawPeer; origin: RawPeer }> {
  const { yaml, damage } = await open(t)
  const world = await heldCached(t, 'forward', yaml)
  // A store that is not available yet, or busy, stores nothing.
  for (;;) {
    const first = await world.send()
    const peer = await world.taken()
    peer.write(fresh(CONTENT, fields))
    const { fields: got } = await readResponse(first)
    if (got['cache-status']?.endsWith(';stored') === true) break
  }
  for (;;) {
    await damage()
    const client = await world.send('GET', '/a', { fields: range })
    const origin = await world.taken()
    await untilStable(() => client.received.length)
    if (client.received !== '') return { world, client, origin }
    // On a busy machine a look-up may take too long, which is a miss.
    origin.write(fresh(CONTENT, fields))
    await readResponse(client)
  }
}

for (const [store, open] of Object.entries(STORES)) {
  t.test(`${store}: the rest comes from an origin that has the same bytes still`, async t => {
    const { client, origin, world } = await lost(t, open, FIELDS)
    t.notMatch(origin.received, /^(?:If-|Range)/im)
    origin.write(fresh(CONTENT, FIELDS))
    const { status, body, fields } = await readResponse(client)
    t.equal(status, 200)
    t.match(fields['cache-status'], /^sluice;hit/)
    t.ok(body === CONTENT, 'every byte')
    const again = await world.send()
    const next = await world.taken()
    next.write(fresh('new', `Cache-Control: no-store\r\n${CLOSE}`))
    t.equal((await readResponse(again)).body, 'new', 'nobody finds it again')
  })

  t.test(`${store}: the rest of a part comes from there, too (RFC 9110 §14.2)`, async t => {
    const [first, last] = [PIECE - 100, PIECE + 1000]
    const { client, origin } = await lost(t, open, FIELDS, `Range: bytes=${first}-${last}\r\n`)
    origin.write(fresh(CONTENT, FIELDS))
    const { status, body, fields } = await readResponse(client)
    t.same([status, fields['content-range']], [206, `bytes ${first}-${last}/${CONTENT.length}`])
    t.ok(body === CONTENT.slice(first, last + 1), 'every byte')
  })

  for (const [what, answer] of Object.entries({
    'other bytes': fresh(CONTENT.replace('1', '2'), FIELDS),
    'more bytes': fresh(`${CONTENT}more`, FIELDS),
    'another Last-Modified': fresh(CONTENT, FIELDS.replace('2024', '2025').replace('Mon', 'Wed')),
    'another coding': fresh(CONTENT, `${FIELDS}Content-Encoding: gzip\r\n`),
    'an error': fresh(CONTENT, FIELDS, '503 Service Unavailable'),
    'no answer': '',
  })) {
    t.test(`${store}: with ${what} at the origin the message is incomplete (RFC 9112 §8)`, async t => {
      const { client, origin } = await lost(t, open, FIELDS)
      if (answer === '') origin.reset()
      else origin.write(answer)
      const head = await client.until('\r\n\r\n')
      t.match(head, new RegExp(`^HTTP/1.1 200 .*\r\nContent-Length: ${CONTENT.length}\r\n`, 's'))
      const body = await client.untilEnd()
      t.ok(body.length >= PIECE && body.length < CONTENT.length, `${body.length} bytes`)
      t.ok(body === CONTENT.slice(0, body.length))
    })
  }

  t.test(
    `${store}: a strong entity tag is enough, and another one is another representation (RFC 9110 §8.8.1)`,
    async t => {
      for (const tag of ['"a"', '"b"']) {
        const fields = (value: string): string => `Cache-Control: max-age=60\r\nETag: ${value}\r\n${CLOSE}`
        const { client, origin } = await lost(t, open, fields('"a"'))
        origin.write(fresh(CONTENT, fields(tag)))
        await client.until('\r\n\r\n')
        if (tag === '"a"') t.ok((await client.until(CONTENT.slice(-20))).endsWith(CONTENT.slice(-20)))
        else t.ok((await client.untilEnd()).length < CONTENT.length)
      }
    },
  )
}
