/** What the wire cannot time: who is late, who is cancelled, and what is not read for anybody. */
import t, { type Test } from 'tap'
import { ProxyError } from '../../../src/errors.js'
import { FieldSection } from '../../../src/http/field-section.js'
import type { Fields } from '../../../src/http/fields.js'
import type { Permit } from '../../../src/policy/permit.js'
import { Cache } from '../../../src/upstream/cache/cache.js'
import { CachingSender } from '../../../src/upstream/cache/caching-sender.js'
import type { StoredHead } from '../../../src/cache/stored-response.js'
import { MemoryStore } from '../../../src/upstream/cache/memory-store.js'
import type { CacheStore, EntryWriter } from '../../../src/upstream/cache/store.js'
import type { Flow, UpstreamEvents, UpstreamRequest } from '../../../src/upstream/sender.js'
import { pauseTimers } from '../../kit/fakes/paused-timers.js'
import { ManualClock } from '../../kit/fakes/manual-clock.js'
import { receivedHead } from '../../kit/fakes/received-head.js'
import { type Attempt, FakeSender } from '../../kit/fakes/sender.js'
import { turns } from '../../kit/peers/until-stable.js'

const WAIT_MS = 5000
const PATIENCE_MS = 50
const LATE = new ProxyError('http_response_timeout', 'late')
const TOLERANT = ['Cache-Control', 'max-age=60, stale-if-error=600, stale-while-revalidate=60']
/** Nothing here is dialled. */
const PERMIT = {} as Permit

class Client implements UpstreamEvents {
  /** In order, content as text. */
  readonly got: (string | number)[] = []
  flow: Flow | undefined
  connected(): void {}
  sent(): void {}
  interim(): void {}
  cached(): void {}
  responded({ status }: { readonly status: number }, flow: Flow): void {
    this.got.push(status)
    this.flow = flow
  }
  data(chunk: Uint8Array): void {
    this.got.push(Buffer.from(chunk).toString('latin1'))
  }
  ended(): void {
    this.got.push('end')
  }
  failed(): void {
    this.got.push('failed')
  }
  upgraded(): void {}
}

function world(_t: Test, store: CacheStore = memory()) {
  const clock = new ManualClock()
  const inner = new FakeSender()
  const sender = new CachingSender(inner, new Cache({ store, maxObjectBytes: 1024, wallClock: clock.now }))
  return {
    clock,
    inner,
    attempt: (at: number) => inner.attempts[at] as Attempt,
    send: (fields: Fields = []) => {
      const client = new Client()
      return { client, cancel: sender.send(request(fields), PERMIT, client, false) }
    },
  }
}

function memory(): MemoryStore {
  return new MemoryStore({ maxBytes: 1024 * 1024, maxObjectBytes: 1024 })
}

function request(fields: Fields): UpstreamRequest {
  return {
    method: 'GET',
    path: '/',
    host: 'a.test',
    fields,
    content: undefined,
    sendsZeroLength: false,
    expectContinue: false,
    upgrade: undefined,
    cached: {
      method: 'GET',
      key: { partition: '', uri: 'http://a.test:80/' },
      fields: FieldSection.of(fields),
      plainPartition: 'everyone',
      hasContent: false,
      ttl: undefined,
      isOff: false,
      hasOtherHops: false,
      showsKey: false,
    },
  }
}

const NO_FLOW: Flow = { pause: () => {}, resume: () => {} }

function answer({ events }: Attempt, content: string, fields: Fields = TOLERANT): void {
  events.responded(receivedHead(200, fields, content.length), NO_FLOW)
  events.data(Buffer.from(content))
  events.ended([])
}

t.test('who has waited and goes its own way is late by itself (RFC 5861 §4)', async t => {
  const timers = pauseTimers(t, WAIT_MS)
  const { clock, attempt, send } = world(t)
  send()
  answer(attempt(0), 'old')
  clock.advance(200_000)
  const leader = send()
  const follower = send()
  await timers.fire()
  t.equal(follower.cancel(LATE), true)
  t.same(follower.client.got, [200, 'old', 'end'])
  t.same(leader.client.got, [], 'the first one waits on')
  answer(attempt(1), 'new')
  t.same(leader.client.got, [200, 'new', 'end'])
})

t.test('a store that is asked takes nothing from who is late (RFC 5861 §4)', async t => {
  const inside = memory()
  const store: CacheStore = Object.assign(Object.create(inside) as MemoryStore, {
    find: async (key: Parameters<CacheStore['find']>[0]) => inside.find(key),
    create: inside.create.bind(inside),
    hold: inside.hold.bind(inside),
    read: inside.read.bind(inside),
  })
  const { clock, attempt, send } = world(t, store)
  send()
  await turns(3)
  answer(attempt(0), 'old')
  clock.advance(200_000)
  const { client, cancel } = send()
  await turns(3)
  t.equal(cancel(LATE), true)
  t.same(client.got, [200, 'old', 'end'])
})

t.test('who is cancelled while the store is asked asks no origin', async t => {
  const store: CacheStore = Object.assign(Object.create(memory()) as MemoryStore, { find: async () => [] })
  const { inner, send } = world(t, store)
  const { client, cancel } = send()
  cancel()
  await turns(3)
  t.same([inner.attempts.length, client.got], [0, []])
})

t.test(
  'a validation in the background is ended after a minute, and holds no timer behind its end (RFC 5861 §3)',
  async t => {
    const timers = pauseTimers(t, 60_000)
    const { clock, attempt, send } = world(t)
    send()
    answer(attempt(0), 'old')
    clock.advance(70_000)
    t.same(send().client.got, [200, 'old', 'end'])
    t.same([timers.set, timers.running], [1, 1])
    await timers.fire()
    t.equal(attempt(1).cancelled, 1)
    t.same(send().client.got, [200, 'old', 'end'])
    answer(attempt(2), 'new')
    t.same([timers.set, timers.running], [2, 0])
    t.same(send().client.got, [200, 'new', 'end'])
  },
)

t.test('a client that is paused gets its pieces in order, and the end behind them (RFC 9111 §4)', async t => {
  const { attempt, send } = world(t)
  const slow = send()
  const fast = send()
  const { events } = attempt(0)
  const held: string[] = []
  const flow = { pause: () => held.push('pause'), resume: () => held.push('resume') }
  events.responded(receivedHead(200, TOLERANT, 3), flow)
  slow.client.flow?.pause()
  events.data(Buffer.from('a'))
  t.same(held, [], 'the other one goes on')
  fast.client.flow?.pause()
  t.same(held, ['pause'], 'nobody takes anything')
  events.data(Buffer.from('b'))
  fast.client.flow?.resume()
  t.same(held, ['pause', 'resume'])
  events.data(Buffer.from('c'))
  events.ended([])
  t.same(fast.client.got, [200, 'a', 'b', 'c', 'end'])
  t.same(slow.client.got, [200])
  slow.client.flow?.resume()
  t.same(slow.client.got, [200, 'a', 'b', 'c', 'end'])
})

t.test(
  'a client that goes while all others are paused, or it alone is not, sets the pace no more (RFC 9111 §4)',
  async t => {
    const { attempt, send } = world(t)
    const slow = send()
    const fast = send()
    const held: string[] = []
    const flow = { pause: () => held.push('pause'), resume: () => held.push('resume') }
    attempt(0).events.responded(receivedHead(200, TOLERANT, 3), flow)
    slow.client.flow?.pause()
    fast.cancel()
    t.same(held, ['pause'])
    slow.client.flow?.resume()
    t.same(held, ['pause', 'resume'])
  },
)

t.test('what is being validated counts in memory, and goes when its origin has answered', async t => {
  const content = 'x'.repeat(1000)
  const fill = (store: MemoryStore, path: string): void => {
    const writer = store.create({ partition: '', uri: `http://b.test:80/${path}` }, HEAD, content.length, [])
    writer?.write(Buffer.from(content))
    writer?.end()
  }
  const other = memory()
  fill(other, '')
  const { bytes: one } = await other.stats()
  const maxBytes = Math.ceil(one * 2.9)
  const store = new MemoryStore({ maxBytes, maxObjectBytes: 1024 })
  const { clock, attempt, send } = world(t, store)
  send()
  answer(attempt(0), content, ['Cache-Control', 'max-age=60', 'ETag', '"a"'])
  clock.advance(61_000)
  const { client } = send()
  for (let i = 0; i < 5; i++) {
    fill(store, `${i}`)
    t.ok((await store.stats()).bytes <= maxBytes, 'never more than the limit')
  }
  t.equal(store.find({ partition: '', uri: 'http://a.test:80/' }).length, 1, 'it was not evicted')
  store.invalidate({ partition: '', uri: 'http://a.test:80/' })
  const { entries, bytes } = await store.stats()
  t.ok(bytes > (entries + 0.5) * one, `${bytes} bytes of ${entries} entries and of what is being validated`)
  attempt(1).events.responded(receivedHead(304, ['ETag', '"a"'], undefined), NO_FLOW)
  t.same(client.got, [200, content, 'end'], 'it is delivered all the same')
  t.ok((await store.stats()).bytes < bytes - 0.5 * one, 'and counts no more')
})

const HEAD: StoredHead = {
  method: 'GET',
  status: 200,
  reason: 'OK',
  minor: 1,
  fields: ['Cache-Control', 'max-age=60', 'ETag', '"a"'],
  selecting: [],
  requestedAt: 0,
  respondedAt: 0,
}

/** A store that is behind with everything, until it says otherwise, and a response to store in it; when what was held. */
function behind(t: Test) {
  const caughtUp: (() => void)[] = []
  const writer: EntryWriter = {
    write: () => {},
    get catchingUp() {
      return new Promise<void>(resolve => caughtUp.push(resolve))
    },
    isGivenUp: false,
    end: () => undefined,
    abort: () => {},
  }
  const found = { find: () => [], create: () => writer }
  const store: CacheStore = Object.assign(Object.create(memory()) as MemoryStore, found)
  const { attempt, send } = world(t, store)
  const { client } = send()
  const { events } = attempt(0)
  const flow: string[] = []
  events.responded(receivedHead(200, TOLERANT, 100), {
    pause: () => flow.push('pause'),
    resume: () => flow.push('resume'),
  })
  return { caughtUp, client, events, flow }
}

t.test('an origin that is faster than the store waits until that has caught up', async t => {
  const { caughtUp, client, events, flow } = behind(t)
  events.data(Buffer.from('one'))
  t.same([client.got, flow], [[200, 'one'], ['pause']], 'the client has what has come')
  client.flow?.pause()
  caughtUp[0]?.()
  await turns(1)
  t.same(flow, ['pause'], 'the client is behind, too')
  client.flow?.resume()
  t.same(flow, ['pause', 'resume'])
  events.ended([])
})

t.test('an origin waits for the store for 50 ms, and then no more', async t => {
  const timers = pauseTimers(t, PATIENCE_MS)
  const { client, events, flow } = behind(t)
  events.data(Buffer.from('one'))
  events.data(Buffer.from('two'))
  t.same([flow, timers.running], [['pause'], 1], 'what comes meanwhile waits for nothing else')
  await timers.fire()
  t.same(flow, ['pause', 'resume'])
  events.data(Buffer.from('three'))
  events.ended([])
  t.same([flow, timers.running], [['pause', 'resume'], 0])
  t.same(client.got, [200, 'one', 'two', 'three', 'end'])
})
