/** The store in Redis beside a server that damages, holds back, refuses and hangs up. */
import t from 'tap'
import type { Mark } from '../../../src/upstream/cache/store.js'
import { contentName, namesOf, namesOfUri } from '../../../src/upstream/cache/redis/keys.js'
import { pauseTimers } from '../../kit/fakes/paused-timers.js'
import { type FakeCommand, fakeRedis, type FakeRedis } from '../../kit/peers/fake-redis.js'
import {
  contentOf,
  headOf,
  keyOf,
  read,
  Receiver,
  redisStore,
  startReading,
  write,
} from '../../kit/redis-store.js'
import { rawOrigin } from '../../kit/peers/raw-origin.js'
import { turns } from '../../kit/peers/until-stable.js'
import { until } from '../../kit/until.js'

const MIB = 1024 * 1024
const FIND_MS = 50
const SILENT_MS = 10_000

/** The name of the only content that there is. */
function contentNameOf(redis: FakeRedis): string {
  const [name, ...more] = [...redis.hashes.keys()].filter(each => each.includes(':c:'))
  if (name === undefined || more.length > 0) throw new Error('not one content')
  return name
}

/**
 * Holds back the answers to commands of a kind, and to all behind the first of them.
 * @returns what gives them, and holds nothing back from then on
 */
function holdAnswers(redis: FakeRedis, isHeld: (command: FakeCommand) => boolean): () => void {
  const held: (() => void)[] = []
  redis.answer = (command, peer) => {
    const answer = redis.usual(command, peer)
    if (held.length === 0 && !isHeld(command)) return answer
    held.push(() => peer.write(answer))
    return undefined
  }
  return () => {
    redis.answer = undefined
    for (const give of held) give()
  }
}

function flipped(text: string, at: number): string {
  return text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1)
}

t.test('a short content comes with its record: one question answers for both', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  t.ok(await write(store, keyOf(), contentOf(1024)))
  redis.commands.length = 0
  const [entry] = await store.find(keyOf())
  if (entry === undefined) throw new Error('not found')
  t.same(entry.key, keyOf())
  t.same(entry.response.head, headOf())
  const { content, end } = await read(store, entry, 10, 99)
  t.equal(end, 'ended')
  t.ok(content.equals(contentOf(1024).subarray(10, 100)))
  t.same(
    redis.commands.map(([name]) => name),
    ['HGET', 'HGETALL'],
  )
})

t.test('partitions never see what others have stored', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf('http://a.test:80/', 'one'), contentOf(10))
  t.same(await store.find(keyOf('http://a.test:80/', 'other')), [])
  t.same(await store.find(keyOf('http://a.test:80/?', 'one')), [])
  t.equal((await store.find(keyOf('http://a.test:80/', 'one'))).length, 1)
  t.equal(await store.purge({ kind: 'uri', uri: 'http://a.test:80/' }), 1)
  t.same([...redis.hashes.keys()], [])
})

t.test('a record with any byte of it damaged is a miss', async t => {
  const redis = await fakeRedis(t)
  const { store, up, events } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf(), contentOf(20))
  const { entries } = namesOf(keyOf())
  const hash = redis.hashes.get(entries) ?? new Map<string, string>()
  const [id = '', record = ''] = [...hash].flat()
  for (let at = 0; at < record.length; at++) {
    hash.set(id, flipped(record, at))
    if ((await store.find(keyOf())).length > 0) t.fail(`found with byte ${at} damaged`)
  }
  for (const foreign of [
    '',
    'SL',
    'SL\x01',
    '{}',
    record.slice(0, -1),
    `${record}x`,
    `SL\x02${record.slice(3)}`,
  ]) {
    hash.set(id, foreign)
    t.same(await store.find(keyOf()), [], JSON.stringify(foreign.slice(0, 5)))
  }
  hash.set(id, record)
  t.equal((await store.find(keyOf())).length, 1)
  t.same(events, [])
})

t.test('a record that lies under another key than its own is a miss', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf(), contentOf(20))
  const [from, to] = [namesOf(keyOf()), namesOf(keyOf('http://a.test:80/other'))]
  redis.hashes.set(to.entries, redis.hashes.get(from.entries) ?? new Map())
  redis.hashes.set(to.uri.generations, redis.hashes.get(from.uri.generations) ?? new Map())
  t.same(await store.find(keyOf('http://a.test:80/other')), [])
})

t.test('answers of another type are a miss, and what another program stores there is not ours', async t => {
  const redis = await fakeRedis(t)
  const { store, up, events } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf(), contentOf(20))
  const answers = [
    '-WRONGTYPE Operation against a key\r\n',
    ':7\r\n',
    '+OK\r\n',
    '$-1\r\n',
    '*-1\r\n',
    '*1\r\n:1\r\n',
  ]
  for (const answer of answers) {
    redis.answer = (command, peer) => (command[0] === 'HGETALL' ? answer : redis.usual(command, peer))
    t.same(await store.find(keyOf()), [], answer.trim())
    t.ok(store.up)
  }
  t.same(events, [])
  redis.answer = (command, peer) =>
    command[0] === 'HGETALL' ? '-ERR broken\r\n' : redis.usual(command, peer)
  t.same(await store.find(keyOf()), [])
  t.match(events, [{ event: 'cache_store_down', error: 'ERR broken' }])
})

t.test(
  'a piece that is missing, short, long or damaged fails the reading, and nobody finds the entry again',
  async t => {
    const damages: Record<string, (piece: string) => string | undefined> = {
      missing: () => undefined,
      empty: () => '',
      short: piece => piece.slice(0, -1),
      long: piece => `${piece}x`,
      'first byte': piece => flipped(piece, 0),
      'last byte': piece => flipped(piece, piece.length - 1),
    }
    for (const [name, damage] of Object.entries(damages)) {
      for (const index of ['0', '2']) {
        await t.test(`${name}, piece ${index}`, async t => {
          const redis = await fakeRedis(t)
          const { store, up } = redisStore(t, [redis.url])
          await up()
          const whole = contentOf(200_000)
          await write(store, keyOf(), whole)
          const pieces = redis.hashes.get(contentNameOf(redis))
          const damaged = damage(pieces?.get(index) ?? '')
          if (damaged === undefined) pieces?.delete(index)
          else pieces?.set(index, damaged)
          const [entry] = await store.find(keyOf())
          if (entry === undefined) throw new Error('not found')
          const { content, end } = await read(store, entry)
          t.equal(end, 'failed')
          t.ok(content.equals(whole.subarray(0, content.length)), 'nothing that is not of it')
          await redis.received('HDEL')
          t.same(await store.find(keyOf()), [])
        })
      }
    }
  },
)

t.test('what is forgotten while it is written is not kept (RFC 9111 §4.4)', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  for (const length of [10, 100_000]) {
    const writer = store.create(keyOf(), headOf(), length, [])
    writer?.write(contentOf(length))
    store.invalidate(keyOf())
    t.equal(await writer?.end(), undefined)
    t.same(await store.find(keyOf()), [])
  }
  const purged = store.create(keyOf(), headOf(), 10, [])
  purged?.write(contentOf(10))
  await store.purge({ kind: 'uri', uri: keyOf().uri })
  t.equal(await purged?.end(), undefined)
  t.ok(await write(store, keyOf(), contentOf(10)), 'the next one is')
  t.equal((await store.find(keyOf())).length, 1)
})

t.test(
  'a response that was requested before another store invalidated is not stored (RFC 9111 §4.4)',
  async t => {
    const redis = await fakeRedis(t)
    const [one, two] = [redisStore(t, [redis.url]), redisStore(t, [redis.url])]
    await Promise.all([one.up(), two.up()])
    const writeSince = async (since: Mark | undefined, key = keyOf()): Promise<boolean> => {
      const writer = one.store.create(key, headOf(), 10, [], since)
      writer?.write(contentOf(10))
      return (await writer?.end()) !== undefined
    }
    const invalidated = async (): Promise<void> => {
      const { length } = await redis.received('HKEYS', 0)
      two.store.invalidate(keyOf())
      await redis.received('HKEYS', length + 1)
      await two.store.find(keyOf())
    }
    for (const looks of [true, false]) {
      for (const isStored of [false, true]) {
        await t.test(
          `${looks ? 'found' : 'not looked for'}, ${isStored ? '' : 'not '}stored before`,
          async t => {
            if (isStored) t.ok(await write(one.store, keyOf(), contentOf(5)))
            const found = looks ? await one.store.find(keyOf()) : []
            const before = one.store.mark(keyOf(), found)
            // Its answer is there behind that of a later question.
            await one.store.find(keyOf('http://a.test:80/later'))
            await invalidated()
            t.notOk(await writeSince(before))
            t.same(await two.store.find(keyOf()), [])
            const other = keyOf('http://a.test:80/other')
            t.ok(await writeSince(one.store.mark(other, []), other), 'what is stored under other keys is')
            t.ok(
              await writeSince(one.store.mark(keyOf(), await one.store.find(keyOf()))),
              'so is a later one',
            )
            t.equal((await two.store.find(keyOf())).length, 1)
            await invalidated()
          },
        )
      }
    }
    const first = one.store.mark(keyOf(), await one.store.find(keyOf()))
    t.ok(
      await write(two.store, keyOf(), contentOf(5)),
      'another response to the same request is no invalidation',
    )
    t.ok(await writeSince(first))
  },
)

t.test('where a store could not learn what was invalidated it does not store the response', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  const marks = [store.mark(keyOf(), [])]
  await up()
  redis.answer = (command, peer) => (command[0] === 'GET' ? '-ERR broken\r\n' : redis.usual(command, peer))
  marks.push(store.mark(keyOf(), []))
  await redis.received('GET')
  redis.answer = undefined
  for (const since of marks) {
    const writer = store.create(keyOf(), headOf(), 10, [], since)
    writer?.write(contentOf(10))
    t.equal(await writer?.end(), undefined)
  }
})

t.test('what a partition has is found by its generation alone, whatever else was evicted', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf(), contentOf(10))
  redis.hashes.delete(namesOfUri(keyOf().uri).generations)
  t.same(await store.find(keyOf()), [])
  await write(store, keyOf(), contentOf(11))
  const found = await store.find(keyOf())
  t.same(
    found.map(({ length }) => length),
    [11],
  )
})

t.test('an update replaces the head and leaves the content as it is (RFC 9111 §4.3.4)', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  for (const length of [10, 100_000]) {
    const key = keyOf(`http://a.test:80/${length}`)
    await write(store, key, contentOf(length))
    const [before] = await store.find(key)
    if (before === undefined) throw new Error('not found')
    redis.commands.length = 0
    store.update(before, headOf({ respondedAt: 9_000 }))
    const sets = await redis.received('HSET')
    t.same(
      sets.map(command => command[1]),
      [namesOf(key).entries],
    )
    const [after, ...more] = await store.find(key)
    if (after === undefined) throw new Error('not found')
    t.equal(more.length, 0)
    t.equal(after.response.head.respondedAt, 9_000)
    for (const entry of [before, after]) {
      const { content, end } = await read(store, entry)
      t.equal(end, 'ended')
      t.ok(content.equals(contentOf(length)))
    }
  }
})

t.test('an update of what is gone does not bring it back', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf(), contentOf(100_000))
  const [entry] = await store.find(keyOf())
  if (entry === undefined) throw new Error('not found')
  redis.hashes.delete(contentNameOf(redis))
  store.update(entry, headOf())
  await redis.received('HDEL')
  t.same(await store.find(keyOf()), [], 'its content was evicted')
  await write(store, keyOf(), contentOf(10))
  const [other] = await store.find(keyOf())
  if (other === undefined) throw new Error('not found')
  store.invalidate(keyOf())
  store.update(other, headOf())
  await redis.received('HSET')
  t.same(await store.find(keyOf()), [], 'it was invalidated')
})

t.test(
  'several responses under one key are all found, and a new one takes the place of those it replaces',
  async t => {
    const redis = await fakeRedis(t)
    const { store, up } = redisStore(t, [redis.url])
    await up()
    const languages = async () =>
      (await store.find(keyOf())).map(({ response }) => response.head.selecting[1]).sort()
    for (const language of ['de', 'en', 'fr']) {
      await write(store, keyOf(), contentOf(10), headOf({ selecting: ['accept-language', language] }))
    }
    t.same(await languages(), ['de', 'en', 'fr'])
    const german = (await store.find(keyOf())).filter(({ response }) => response.head.selecting[1] === 'de')
    const head = headOf({ selecting: ['accept-language', 'at'] })
    t.ok(await write(store, keyOf(), contentOf(10), head, german))
    t.same(await languages(), ['at', 'en', 'fr'])
    store.remove(await store.find(keyOf()))
    t.same(await languages(), [])
  },
)

t.test('of more than 32 responses under one key the oldest are forgotten', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  for (let i = 0; i < 40; i++) {
    const head = headOf({ selecting: ['cookie', `${i}`], respondedAt: i })
    t.ok(await write(store, keyOf(), contentOf(10), head))
    if (i >= 32) await redis.received('HDEL', i - 31)
  }
  const found = await store.find(keyOf())
  const times = found.map(({ response }) => response.head.respondedAt).sort((a, b) => a - b)
  t.same(
    times,
    Array.from({ length: 32 }, (_, i) => i + 8),
  )
})

t.test('what has expired is not found, whatever Redis still has of it', async t => {
  const redis = await fakeRedis(t)
  let now = 1_000_000
  const { store, up } = redisStore(t, [redis.url], { wallClock: () => now, freshForMs: () => 5_000 })
  await up()
  await write(store, keyOf(), contentOf(10))
  now += 24 * 3_600_000 + 4_999
  t.equal((await store.find(keyOf())).length, 1, 'a day longer than it is fresh')
  now += 1
  t.same(await store.find(keyOf()), [])
  const ttls = (await redis.received('PEXPIRE')).filter(([, name]) => name === namesOf(keyOf()).entries)
  t.same(
    ttls.map(command => command.slice(2)),
    [
      ['86405000', 'NX'],
      ['86405000', 'GT'],
    ],
  )
})

t.test('lifetimes without end, and those that are no number, have one all the same', async t => {
  const redis = await fakeRedis(t)
  for (const [freshMs, ttl] of [
    [Number.POSITIVE_INFINITY, `${2 ** 31 * 1_000 + 86_400_000}`],
    [Number.NaN, '86400000'],
    [-5, '86400000'],
    [0.5, '86400001'],
  ] as const) {
    const { store, up } = redisStore(t, [redis.url], { freshForMs: () => freshMs })
    await up()
    redis.commands.length = 0
    t.ok(await write(store, keyOf(), contentOf(10)))
    const ttls = (await redis.received('PEXPIRE')).filter(([, name]) => name === namesOf(keyOf()).entries)
    t.equal(ttls[0]?.[2], ttl)
  }
})

t.test('asks for no more than two pieces ahead of what is taken', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  const content = contentOf(MIB)
  const entry = await write(store, keyOf(), content)
  if (entry === undefined) throw new Error('not kept')
  const name = contentNameOf(redis)
  const asked = () => redis.commands.filter(command => command[0] === 'HGET' && command[1] === name).length
  const receiver = new Receiver()
  const reading = startReading(store, entry, receiver)
  receiver.onData = () => reading.pause()
  for (let taken = 1; taken <= 16; taken++) {
    await until(`piece ${taken}`, () => receiver.chunks.length === taken)
    await turns(20)
    t.equal(receiver.chunks.length, taken, 'none while paused')
    t.equal(asked(), Math.min(taken + 2, 16))
    reading.resume()
  }
  t.equal(await until('the end', () => receiver.end), 'ended')
  t.ok(receiver.content.equals(content))
})

t.test('nothing is called back after a reading was cancelled', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  for (const length of [10, MIB]) {
    const entry = await write(store, keyOf(), contentOf(length))
    if (entry === undefined) throw new Error('not kept')
    const before = new Receiver()
    startReading(store, entry, before).cancel()
    const within = new Receiver()
    const reading = startReading(store, entry, within)
    within.onData = () => reading.cancel()
    await until('the first chunk', () => within.chunks.length === 1)
    await turns(20)
    t.same([before.chunks.length, before.end], [0, undefined])
    t.same([within.chunks.length, within.end], [1, undefined])
  }
})

t.test('an empty content ends at once, and waits while it is paused', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  const entry = await write(store, keyOf(), contentOf(0))
  if (entry === undefined) throw new Error('not kept')
  const receiver = new Receiver()
  const reading = startReading(store, entry, receiver)
  reading.pause()
  await turns(20)
  t.equal(receiver.end, undefined)
  reading.resume()
  t.equal(await until('the end', () => receiver.end), 'ended')
  t.equal(receiver.chunks.length, 0)
})

t.test(
  'gives up an entry when more than 4 MiB wait to be taken, and has room again when they were',
  async t => {
    const redis = await fakeRedis(t)
    const { store, up } = redisStore(t, [redis.url])
    await up()
    const release = holdAnswers(redis, command => command[1]?.includes(':c:') === true)
    const writer = store.create(keyOf(), headOf(), undefined, [])
    writer?.write(contentOf(5 * MIB))
    t.equal(await writer?.end(), undefined)
    const sent = (await redis.received('UNLINK')).length
    t.equal(sent, 1, 'what was sent is not kept')
    t.equal(redis.commands.filter(([name]) => name === 'HSET').length, 63)
    release()
    t.ok(await until('an entry', async () => await write(store, keyOf(), contentOf(3 * MIB))))
    t.equal((await store.find(keyOf())).length, 1)
  },
)

t.test('what has come to its end is found by whoever looks then, though it is yet to be written', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  for (const length of [0, 100, 300_000]) {
    const key = keyOf(`http://a.test:80/${length}`)
    const written = write(store, key, contentOf(length))
    const [entry] = await store.find(key)
    t.equal(entry?.length, length)
    t.equal((await written)?.length, length)
  }
})

t.test('a look-up that waits too long for what is being written is a miss, and others go on', async t => {
  const redis = await fakeRedis(t)
  const { store, up, events } = redisStore(t, [redis.url], { timeoutMs: FIND_MS })
  await up()
  await write(store, keyOf('http://a.test:80/other'), contentOf(10))
  const held: (() => void)[] = []
  redis.answer = (command, peer) => {
    const answer = redis.usual(command, peer)
    const isContent = command[1]?.includes(':c:') === true
    if (held.length === 0 && !isContent) return answer
    if (!isContent && command[0] !== 'EXEC' && command[0] !== 'MULTI') return answer
    held.push(() => peer.write(answer))
    return undefined
  }
  const written = write(store, keyOf(), contentOf(100_000))
  redis.commands.length = 0
  t.same(await store.find(keyOf()), [])
  t.same(
    redis.commands.filter(([name]) => name === 'HGETALL'),
    [],
    'it was not asked for',
  )
  t.ok(store.up)
  t.same(events, [])
  t.equal((await store.find(keyOf('http://a.test:80/other'))).length, 1)
  redis.answer = undefined
  for (const release of held) release()
  t.ok(await written)
  t.equal((await store.find(keyOf())).length, 1)
})

t.test('a writer says when too much waits to be taken, and when it was', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  const release = holdAnswers(redis, command => command[1]?.includes(':c:') === true)
  const writer = store.create(keyOf(), headOf(), undefined, [])
  writer?.write(contentOf(3 * MIB))
  t.equal(writer?.catchingUp, undefined)
  writer?.write(contentOf(MIB / 4))
  const caughtUp = writer?.catchingUp
  t.type(caughtUp, Promise)
  await redis.received('EXEC', 51)
  release()
  await caughtUp
  writer?.write(contentOf(MIB))
  t.equal(writer?.catchingUp, undefined)
  t.equal((await writer?.end())?.length, 4.25 * MIB)
})

t.test('content that is longer or shorter than was said is not kept', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  for (const [said, length] of [
    [10, 9],
    [9, 10],
    [100_000, 99_999],
    [0, 200_000],
  ] as const) {
    const writer = store.create(keyOf(), headOf(), said, [])
    writer?.write(contentOf(length))
    t.equal(await writer?.end(), undefined)
  }
  t.same(await store.find(keyOf()), [])
  const aborted = store.create(keyOf(), headOf(), undefined, [])
  aborted?.write(contentOf(200_000))
  aborted?.abort()
  t.equal(await aborted?.end(), undefined)
  await redis.received('UNLINK', 2)
  t.same(
    [...redis.hashes.keys()].filter(name => name.includes(':c:')),
    [],
  )
})

t.test('an entry whose content has lost a piece meanwhile is not kept', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  const writer = store.create(keyOf(), headOf(), undefined, [])
  writer?.write(contentOf(MIB))
  await redis.received('EXEC', 16)
  redis.hashes.delete(contentNameOf(redis))
  t.equal(await writer?.end(), undefined)
  t.same(await store.find(keyOf()), [])
})

t.test('waits 50 ms for an answer, then for none until all that it asked was answered', async t => {
  const redis = await fakeRedis(t)
  const { store, up, down, events } = redisStore(t, [redis.url], { timeoutMs: FIND_MS })
  await up()
  await write(store, keyOf(), contentOf(10))
  const release = holdAnswers(redis, () => true)
  const found = store.find(keyOf())
  t.type(found, Promise)
  t.same(await found, [])
  await down()
  const before = redis.commands.length
  t.same(store.find(keyOf()), [])
  t.equal(store.create(keyOf(), headOf(), 1, []), undefined)
  await redis.received('PING', 3)
  t.equal(redis.commands.length - before, 1, 'nothing but whether it answers')
  release()
  await up()
  t.equal((await store.find(keyOf())).length, 1)
  t.match(events, [{ event: 'cache_store_down' }, { event: 'cache_store_up' }])
})

t.test(
  'a first piece that is late fails the reading, and one that is late behind it is waited for',
  async t => {
    const redis = await fakeRedis(t)
    const { store, up, down } = redisStore(t, [redis.url], { timeoutMs: FIND_MS })
    await up()
    const entry = await write(store, keyOf(), contentOf(200_000))
    if (entry === undefined) throw new Error('not kept')
    for (const late of ['0', '1']) {
      redis.commands.length = 0
      const held: (() => void)[] = []
      redis.answer = (command, peer) => {
        const answer = redis.usual(command, peer)
        if (held.length === 0 && !(command[0] === 'HGET' && command[2] === late)) return answer
        held.push(() => peer.write(answer))
        return undefined
      }
      const receiver = new Receiver()
      startReading(store, entry, receiver)
      await until('the late piece to be asked for', () => held.length > 0)
      if (late === '1') await until('the first piece', () => receiver.chunks.length === 1)
      await down()
      t.equal(receiver.end, late === '0' ? 'failed' : undefined)
      redis.answer = undefined
      for (const release of held) release()
      await up()
      if (late === '1') t.equal(await until('the end', () => receiver.end), 'ended')
      t.equal(receiver.chunks.length, late === '0' ? 0 : 4)
    }
  },
)

t.test('a piece behind the first that does not come at all fails the reading', async t => {
  const redis = await fakeRedis(t)
  const { store, up } = redisStore(t, [redis.url], { timeoutMs: 10 })
  await up()
  const entry = await write(store, keyOf(), contentOf(200_000))
  if (entry === undefined) throw new Error('not kept')
  redis.answer = (command, peer) =>
    command[0] === 'HGET' && command[2] !== '0' ? undefined : redis.usual(command, peer)
  const { content, end } = await read(store, entry)
  t.equal(end, 'failed')
  t.ok(content.equals(contentOf(200_000).subarray(0, 65_536)), 'long before its connection is given up')
})

t.test(
  'a connection on which nothing is answered for ten seconds is closed, and another is opened',
  async t => {
    const redis = await fakeRedis(t)
    const { store, up, down } = redisStore(t, [redis.url], { timeoutMs: FIND_MS })
    await up()
    const silent = pauseTimers(t, SILENT_MS)
    redis.answer = () => undefined
    const found = store.find(keyOf())
    t.same(await found, [])
    await down()
    const { accepted } = redis.origin
    await silent.fire()
    redis.answer = undefined
    await up()
    t.equal(redis.origin.accepted, accepted + 1)
  },
)

t.test('bytes that are no answer end the connection, and another is opened', async t => {
  const redis = await fakeRedis(t)
  const { store, up, events } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf(), contentOf(10))
  const { accepted } = redis.origin
  redis.answer = (command, peer) =>
    command[0] === 'HGETALL' ? '\x00garbage\r\n' : redis.usual(command, peer)
  t.same(await store.find(keyOf()), [])
  await until('another connection', () => redis.origin.accepted > accepted)
  redis.answer = undefined
  await up()
  t.equal((await store.find(keyOf())).length, 1)
  t.match(events, [{ event: 'cache_store_down' }, { event: 'cache_store_up' }])
})

t.test(
  'while it is down nothing is asked, and nothing is kept to be asked later but what was invalidated',
  async t => {
    const redis = await fakeRedis(t)
    const { store, up, down } = redisStore(t, [redis.url])
    await up()
    await write(store, keyOf(), contentOf(10))
    const [entry] = await store.find(keyOf())
    if (entry === undefined) throw new Error('not found')
    redis.answer = (_, peer) => {
      peer.reset()
      return undefined
    }
    for (const peer of redis.origin.peers) peer.reset()
    await down()
    for (let i = 0; i < 100; i++) {
      t.same(store.find(keyOf()), [])
      t.equal(store.create(keyOf(), headOf(), 1, []), undefined)
      store.update(entry, headOf({ status: 203 }))
      store.remove([entry])
      store.invalidate(keyOf('http://a.test:80/invalidated'))
    }
    redis.commands.length = 0
    redis.answer = undefined
    await up()
    const { uri, partition, entries, invalidation } = namesOf(keyOf('http://a.test:80/invalidated'))
    const asked = redis.commands.filter(([name]) => !['PING', 'MULTI', 'EXEC'].includes(name ?? ''))
    t.same(asked, [
      ['SET', invalidation, asked[0]?.[2], 'PX', '900000'],
      ['HDEL', uri.generations, partition],
      ['HKEYS', entries],
      ['UNLINK', entries],
    ])
    t.equal((await store.find(keyOf())).length, 1)
  },
)

t.test(
  'a server that refuses every connection is dialled again and again, and one line is logged',
  async t => {
    const redis = await rawOrigin(t)
    redis.each(peer => peer.reset())
    const { store, events } = redisStore(t, [`redis://${redis.authority}`])
    await until('three attempts', () => redis.accepted >= 6)
    t.same(store.find(keyOf()), [])
    t.equal(events.length, 1)
    t.match(events, [{ event: 'cache_store_down' }])
    t.match(await store.stats(), { entries: 0, bytes: 0, evictions: 0, up: false })
  },
)

t.test('closing leaves nothing, whatever the connections are doing', async t => {
  const silent = await rawOrigin(t)
  const opening = redisStore(t, [`redis://${silent.authority}`])
  await until('connections', () => silent.accepted === 2)
  await opening.store.close()
  const refusing = await rawOrigin(t)
  refusing.each(peer => peer.reset())
  const pausing = redisStore(t, [`redis://${refusing.authority}`])
  await until('an attempt', () => pausing.events.length > 0)
  await pausing.store.close()
  const discovering = redisStore(t, [`redis://${silent.authority}`, `redis://${refusing.authority}`])
  await until('another connection', () => silent.accepted + refusing.accepted > 4)
  await discovering.store.close()
  const atOnce = redisStore(t, [`redis://${silent.authority}`])
  await atOnce.store.close()
  const redis = await fakeRedis(t)
  const busy = redisStore(t, [redis.url])
  await busy.up()
  redis.answer = () => undefined
  const found = busy.store.find(keyOf())
  const writer = busy.store.create(keyOf(), headOf(), undefined, [])
  writer?.write(contentOf(MIB))
  const ended = writer?.end()
  await redis.received('HGETALL')
  await busy.store.close()
  t.same(await found, [])
  t.equal(await ended, undefined)
  t.same(busy.events, [], 'that is no failure')
  t.same(busy.store.find(keyOf()), [])
})

t.test('what a server says of the credentials that it was sent is not logged', async t => {
  const redis = await fakeRedis(t)
  redis.answer = ([name, ...args]) =>
    `-ERR unknown command '${name}', with args beginning with: '${args.join("' '")}'\r\n`
  const { events } = redisStore(t, [redis.url.replace('//', '//user:s3cret@')])
  await until('the refusal', () => events.length > 0)
  t.notMatch(JSON.stringify(events), /s3cret/)
  t.match(events, [{ error: 'ERR unknown' }])
})

t.test('URLs that are none are refused where the store is made', async t => {
  for (const urls of [[], ['http://a.test'], ['redis://'], ['redis://a.test/x']]) {
    t.throws(() => redisStore(t, urls), RangeError)
  }
})

t.test('names of content hold the tag of their URI', async t => {
  const { tag } = namesOfUri('http://a.test:80/')
  t.equal(contentName(tag, 'id'), `sluice:{${tag}}:c:id`)
})
