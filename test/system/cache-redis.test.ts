/** The store in Redis with a real Redis, which is killed, stopped, full, or a cluster. */
import t from 'tap'
import { namesOf, slotOf } from '../../src/upstream/cache/redis/keys.js'
import { needs } from '../kit/processes/command.js'
import {
  contentOf,
  headOf,
  keyOf,
  read,
  Receiver,
  redisStore,
  startReading,
  write,
} from '../kit/redis-store.js'
import { until } from '../kit/until.js'
import { Authority } from '../kit/peers/authority.js'
import { type RedisProgram, startCluster, startRedis } from './redis-program.js'

const skip = needs('redis-server', 'redis-cli', 'openssl')
const MIB = 1024 * 1024

t.test('stores and finds responses of all lengths', { skip }, async t => {
  const redis = await startRedis(t)
  const { store, up, events } = redisStore(t, [redis.url])
  await up()
  for (const length of [0, 1, 4096, 4097, 65_536, 65_537, 131_072, 1_000_000]) {
    const key = keyOf(`http://a.test:80/${length}`)
    const content = contentOf(length)
    t.same(await store.find(key), [], `nothing of ${length} bytes before`)
    const written = await write(store, key, content)
    t.equal(written?.length, length)
    const [found, ...more] = await store.find(key)
    t.equal(more.length, 0)
    t.same(found?.response.head, headOf())
    if (found === undefined) continue
    const all = await read(store, found)
    t.equal(all.end, 'ended')
    t.ok(all.content.equals(content), `all of ${length} bytes`)
    const first = Math.floor(length / 3)
    const last = Math.max(first - 1, length - 2)
    const part = await read(store, found, first, last)
    t.ok(part.content.equals(content.subarray(first, last + 1)), `a part of ${length} bytes`)
  }
  t.same(events, [])
  const stats = await store.stats()
  t.match(stats, { entries: 8, evictions: 0, up: true })
  t.ok(stats.bytes > 1_000_000)
  t.equal(await store.purge({ kind: 'host', host: 'b.test' }), 0)
  t.equal(await store.purge({ kind: 'uri', uri: 'http://a.test:80/1' }), 1)
  t.same(await store.find(keyOf('http://a.test:80/1')), [])
  t.equal(await store.purge({ kind: 'host', host: 'a.test' }), 7)
  t.same(await store.find(keyOf('http://a.test:80/4096')), [])
  t.ok(await write(store, keyOf(), contentOf(10)))
  for (const name of ['of-another', 'sluice:{of-another}:e:program']) await redis.command('SET', name, 'x')
  t.equal(await store.purge({ kind: 'all' }), 1)
  t.same((await redis.command('KEYS', '*')).split('\n').sort(), [
    'of-another',
    'sluice:{of-another}:e:program',
  ])
})

t.test('everything has a time to live', { skip }, async t => {
  const redis = await startRedis(t)
  const { store, up } = redisStore(t, [redis.url])
  await up()
  await write(store, keyOf(), contentOf(10))
  await write(store, keyOf('http://a.test:80/long'), contentOf(MIB))
  const half = store.create(keyOf('http://a.test:80/half'), headOf(), undefined, [])
  half?.write(contentOf(MIB))
  await until('the pieces that are written', async () => {
    const names = (await redis.command('KEYS', '*')).split('\n')
    return names.filter(name => name.includes(':c:')).length === 2
  })
  const names = (await redis.command('KEYS', '*')).split('\n')
  for (const name of names) {
    const seconds = Number(await redis.command('TTL', name))
    t.ok(seconds > 3_500 && seconds <= 25 * 3_600 + 60, `${name}: ${seconds}`)
  }
  half?.abort()
  await until('no half of an entry', async () => {
    return (await redis.command('KEYS', '*')).split('\n').filter(name => name.includes(':c:')).length === 1
  })
})

t.test(
  'finds nothing, without delay, while Redis is down, and finds entries again when it is back',
  { skip },
  async t => {
    const redis = await startRedis(t)
    const { store, up, down, events } = redisStore(t, [redis.url])
    await up()
    const entry = await write(store, keyOf(), contentOf(3 * MIB))
    if (entry === undefined) throw new Error('not kept')
    const receiver = new Receiver()
    const reading = startReading(store, entry, receiver)
    receiver.onData = () => reading.pause()
    await until('the first piece', () => receiver.chunks.length === 1)
    const writer = store.create(keyOf('http://a.test:80/2'), headOf(), undefined, [])
    writer?.write(contentOf(MIB))
    await redis.kill()
    reading.resume()
    receiver.onData = () => {}
    t.equal(await until('the end', () => receiver.end), 'failed')
    t.equal(await writer?.end(), undefined)
    await down()
    t.same(store.find(keyOf()), [], 'without waiting')
    t.equal(store.create(keyOf(), headOf(), 1, []), undefined)
    await t.rejects(store.purge({ kind: 'all' }))
    t.match(await store.stats(), { entries: 0, up: false })
    await redis.start()
    await up()
    t.same(await store.find(keyOf()), [], 'Redis came back empty')
    t.ok(await write(store, keyOf(), contentOf(5)))
    t.equal((await store.find(keyOf())).length, 1)
    t.match(events, [{ event: 'cache_store_down' }, { event: 'cache_store_up' }])
    t.equal(events.length, 2)
  },
)

t.test(
  'what was invalidated while Redis could not be reached is not found afterwards (RFC 9111 §4.4)',
  { skip },
  async t => {
    const redis = await startRedis(t)
    const [one, other] = [redisStore(t, [redis.url]), redisStore(t, [redis.url])]
    await Promise.all([one.up(), other.up()])
    await write(one.store, keyOf(), contentOf(10))
    await write(one.store, keyOf('http://a.test:80/kept'), contentOf(10))
    // Redis closes the connections, keeps its data, and accepts no logins for now.
    await redis.command('CONFIG', 'SET', 'requirepass', 'for-now')
    await redis.command('-a', 'for-now', '--no-auth-warning', 'CLIENT', 'KILL', 'TYPE', 'normal')
    await one.down()
    one.store.invalidate(keyOf())
    await redis.command('-a', 'for-now', '--no-auth-warning', 'CONFIG', 'SET', 'requirepass', '')
    await Promise.all([one.up(), other.up()])
    t.same(await one.store.find(keyOf()), [])
    t.same(await other.store.find(keyOf()), [], 'on other machines neither')
    t.equal((await one.store.find(keyOf('http://a.test:80/kept'))).length, 1)
    t.match(one.events, [{ event: 'cache_store_down' }, { event: 'cache_store_up' }])
  },
)

t.test('waits at most 50 ms for a Redis that hangs, and then not at all', { skip }, async t => {
  const redis = await startRedis(t)
  const patient = redisStore(t, [redis.url])
  const { store, up, down, events } = redisStore(t, [redis.url], { timeoutMs: undefined })
  await Promise.all([patient.up(), up()])
  const content = contentOf(3 * MIB)
  const entry = await write(patient.store, keyOf(), content)
  if (entry === undefined) throw new Error('not kept')
  const receiver = new Receiver()
  const reading = startReading(patient.store, entry, receiver)
  receiver.onData = () => reading.pause()
  await until('the first piece', () => receiver.chunks.length === 1)
  redis.signal('SIGSTOP')
  const found = Promise.resolve(store.find(keyOf()))
  const first = new Receiver()
  startReading(store, entry, first)
  const order: string[] = []
  // A busy machine delays both timers, so only their order matters.
  const later = new Promise<void>(resolve => {
    setTimeout(() => setImmediate(() => resolve()), 55)
  })
  await Promise.all([found.then(() => order.push('found')), later.then(() => order.push('later'))])
  t.same(await found, [])
  t.same(order, ['found', 'later'])
  t.equal(await until('the end', () => first.end), 'failed')
  t.equal(first.chunks.length, 0, 'nothing was sent to a client: the origin may be asked')
  await down()
  t.same(store.find(keyOf()), [], 'without waiting')
  t.equal(store.create(keyOf(), headOf(), 1, []), undefined)
  receiver.onData = () => {}
  reading.resume()
  redis.signal('SIGCONT')
  await up()
  t.equal((await patient.store.find(keyOf())).length, 1)
  t.equal(await until('the end', () => receiver.end), 'ended', 'who was reading goes on')
  t.ok(receiver.content.equals(content))
  t.match(events, [
    { event: 'cache_store_down', error: 'no answer within 50 ms' },
    { event: 'cache_store_up' },
  ])
})

t.test('what Redis evicts is a miss or a failed read, never anything else', { skip }, async t => {
  const redis = await startRedis(t, { args: ['--maxmemory', '8mb', '--maxmemory-policy', 'allkeys-random'] })
  const { store, up } = redisStore(t, [redis.url])
  await up()
  const counts = { kept: 0, whole: 0, missed: 0, failed: 0 }
  const keys = Array.from({ length: 60 }, (_, i) => keyOf(`http://a.test:80/${i}`))
  const content = contentOf(300_000)
  for (const key of keys) if ((await write(store, key, content)) !== undefined) counts.kept++
  for (const key of keys) {
    const [entry] = await store.find(key)
    if (entry === undefined) {
      counts.missed++
      continue
    }
    const received = await read(store, entry)
    if (received.end === 'ended') {
      t.ok(received.content.equals(content))
      counts.whole++
      continue
    }
    counts.failed++
    t.same(await store.find(key), [], 'nobody finds it again')
  }
  t.equal(counts.whole + counts.missed + counts.failed, keys.length)
  t.ok(counts.kept > 0 && counts.whole > 0 && counts.missed > 0, JSON.stringify(counts))
  t.ok((await store.stats()).evictions > 0)
})

t.test('a full Redis that evicts nothing stores nothing more, but can be read', { skip }, async t => {
  const redis = await startRedis(t, { args: ['--maxmemory', '4mb', '--maxmemory-policy', 'noeviction'] })
  const { store, up, events } = redisStore(t, [redis.url])
  await up()
  t.ok(await write(store, keyOf(), contentOf(100)))
  let refused = 0
  for (let i = 0; i < 10; i++) {
    const entry = await write(store, keyOf(`http://a.test:80/${i}`), contentOf(MIB))
    if (entry === undefined) refused++
  }
  t.ok(refused > 0)
  const [entry] = await store.find(keyOf())
  t.ok(entry)
  t.ok(store.up)
  t.match(events, [{ event: 'cache_store_down', error: /maxmemory/ }])
  t.equal(events.length, 1, 'one line')
})

t.test(
  'connects with TLS only to a server whose certificate the given authorities have issued',
  { skip },
  async t => {
    const ca = Authority.make(t.testdir())
    const { certFile, keyFile } = ca.issue({ san: 'IP:127.0.0.1' })
    const files = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-ca-cert-file', ca.certFile]
    const redis = await startRedis(t, {
      tls: true,
      args: [...files, '--tls-auth-clients', 'no'],
      cli: ['--tls', '--cacert', ca.certFile],
    })
    const { store, up } = redisStore(t, [redis.url], { ca: ca.cert })
    await up()
    const content = contentOf(200_000)
    const entry = await write(store, keyOf(), content)
    if (entry === undefined) throw new Error('not kept')
    t.ok((await read(store, entry)).content.equals(content))
    const other = redisStore(t, [redis.url])
    const [event] = await until('the refusal', () => (other.events.length > 0 ? other.events : undefined))
    t.match(event, { event: 'cache_store_down', error: /certificate/ })
    t.notOk(other.store.up)
  },
)

t.test('authenticates with the credentials of its URL, and logs no password', { skip }, async t => {
  const redis = await startRedis(t, {
    args: [
      '--user',
      'cache',
      'on',
      '>p@ss',
      '~sluice:*',
      '+@all',
      '-@admin',
      '-@dangerous',
      '+info',
      '--user',
      'default',
      'off',
    ],
    cli: ['--user', 'cache', '--pass', 'p@ss', '--no-auth-warning'],
    credentials: 'cache:p%40ss@',
  })
  const { store, up } = redisStore(t, [redis.url])
  await up()
  t.ok(await write(store, keyOf(), contentOf(10)))
  t.match(await store.stats(), { entries: 1, up: true })
  t.equal(await store.purge({ kind: 'all' }), 1)
  for (const url of [redis.url.replace('p%40ss', 'wr%40ng'), redis.url.replace('cache:p%40ss@', '')]) {
    const { events } = redisStore(t, [url])
    const [event] = await until('the refusal', () => (events.length > 0 ? events : undefined))
    t.match(event, { event: 'cache_store_down', error: /WRONGPASS|NOAUTH/ })
    t.notMatch(JSON.stringify(events), /wr@ng|p@ss/)
  }
})

t.test('connects to a Unix socket, and to a database by its number', { skip }, async t => {
  const redis = await startRedis(t)
  const [one, other] = [redisStore(t, [`unix://${redis.socket}?db=3`]), redisStore(t, [`${redis.url}/3`])]
  await Promise.all([one.up(), other.up()])
  t.ok(await write(one.store, keyOf(), contentOf(10)))
  t.equal((await other.store.find(keyOf())).length, 1)
  t.equal(await redis.command('DBSIZE'), '0')
  t.equal(await redis.command('-n', '3', 'DBSIZE'), '2')
})

t.test(
  'in a cluster each URI is on one master, and the loss of one does not affect the others',
  { skip },
  async t => {
    const nodes = await startCluster(t)
    const { store, up, events } = redisStore(
      t,
      nodes.map(({ url }) => url),
    )
    await up()
    const keys = Array.from({ length: 30 }, (_, i) => keyOf(`http://a.test:80/${i}`))
    const content = contentOf(100_000)
    for (const key of keys) t.ok(await write(store, key, content))
    const sizes = await Promise.all(nodes.map(async node => Number(await node.command('DBSIZE'))))
    t.equal(sizes[0] === 0 || sizes[1] === 0 || sizes[2] === 0, false, `keys on each: ${sizes.join()}`)
    t.equal(
      sizes.reduce((a, b) => a + b),
      90,
    )
    const there = async () => {
      let found = 0
      for (const key of keys) {
        const [entry] = await store.find(key)
        if (entry !== undefined && (await read(store, entry)).end === 'ended') found++
      }
      return found
    }
    t.equal(await there(), 30)
    t.match(await store.stats(), { entries: 30, up: true })
    await nodes[1]?.kill()
    await until('it is noticed', () => !store.up)
    const gone = (sizes[1] ?? 0) / 3
    t.equal(await there(), 30 - gone)
    t.match(await store.stats(), { entries: 30 - gone, up: false })
    await nodes[1]?.start()
    await up()
    t.equal(await there(), 30 - gone)
    t.equal(await store.purge({ kind: 'host', host: 'a.test' }), 30 - gone)
    t.match(await store.stats(), { entries: 0, up: true })
    t.ok(await write(store, keyOf(), content))
    t.equal(await store.purge({ kind: 'all' }), 1)
    t.match(events, [{ event: 'cache_store_down' }, { event: 'cache_store_up' }])
  },
)

t.test('a slot that moves to another master is followed', { skip }, async t => {
  const nodes = await startCluster(t)
  const { uri } = namesOf(keyOf())
  const slot = slotOf(uri.tag)
  const from = nodes[Math.floor(slot / 5461)]
  const [to, third] = nodes.filter(node => node !== from)
  if (from === undefined || to === undefined || third === undefined) throw new Error('no three nodes')
  // One URL of a cluster is enough, too.
  const { store, up } = redisStore(t, [from.url])
  await up()
  t.ok(await write(store, keyOf(), contentOf(10)))
  const setSlot = (node: RedisProgram, ...args: string[]) =>
    node.command('CLUSTER', 'SETSLOT', String(slot), ...args)
  const [fromId, toId] = [await from.command('CLUSTER', 'MYID'), await to.command('CLUSTER', 'MYID')]
  await from.command('FLUSHALL')
  await setSlot(to, 'IMPORTING', fromId)
  await setSlot(from, 'MIGRATING', toId)
  for (const node of [to, from, third]) t.equal(await setSlot(node, 'NODE', toId), 'OK')
  const kept = async () => (await write(store, keyOf(), contentOf(10))) !== undefined
  await until('an entry on the other master', kept, { everyMs: 20 })
  t.equal(await to.command('EXISTS', uri.generations), '1')
  t.equal((await store.find(keyOf())).length, 1)
})
