import t from 'tap'
import type { Answer } from '../../src/upstream/lookup.js'
import {
  type LookupClient,
  LookupQueue,
  type LookupQueueOptions,
  type QueuedLookup,
} from '../../src/upstream/lookup-queue.js'
import { turns } from '../kit/peers/settled.js'

const ANSWER: Answer = { addresses: ['192.0.2.1'], ttlMs: undefined }

interface Begun {
  readonly name: string
  readonly signal: AbortSignal
  answer(): void
  fail(error: Error): void
}

/** A queue whose lookups the test answers, in whatever order. */
function queueOf(atOnce: number, limits: Partial<LookupQueueOptions['limits']> = {}, endsAtAbort = false) {
  const begun: Begun[] = []
  const dropped: string[] = []
  const rejected: string[] = []
  const queue = new LookupQueue({
    limits: { dnsLookups: 1000, dnsLookupsPerClient: 1000, ...limits },
    atOnce,
    onRejected: limit => rejected.push(limit),
  })
  const create = (name: string): QueuedLookup =>
    queue.create({
      endsAtAbort,
      run: signal =>
        new Promise((resolve, reject) => {
          begun.push({ name, signal, answer: () => resolve(ANSWER), fail: reject })
          if (endsAtAbort) signal.addEventListener('abort', () => reject(signal.reason))
        }),
      onDrop: () => dropped.push(name),
    })
  /** @returns what ends the client's wait */
  const ask = (client: LookupClient, name: string): (() => void) => {
    const lookup = create(name)
    lookup.answer.catch(() => {})
    return lookup.join(client)
  }
  /** Answers one that was begun, and waits until the next have begun in its place. */
  const answer = async (name: string): Promise<void> => {
    begun.find(one => one.name === name)?.answer()
    await turns(2)
  }
  const names = (): string[] => begun.map(({ name }) => name)
  return { queue, create, ask, answer, begun, names, dropped, rejected }
}

t.test('so many run at a time, and the next begins when one has ended', async t => {
  const { queue, ask, answer, names, begun } = queueOf(2)
  for (const client of ['a', 'b', 'c', 'd']) ask(client, client)
  t.same([names(), queue.running, queue.size], [['a', 'b'], 2, 4])
  await answer('b')
  t.same([names(), queue.running, queue.size], [['a', 'b', 'c'], 2, 3])
  begun[0]?.fail(new Error('no'))
  await turns(2)
  t.same([names(), queue.running, queue.size], [['a', 'b', 'c', 'd'], 2, 2], 'a failure is an end, too')
  await answer('c')
  await answer('d')
  t.same([queue.running, queue.size], [0, 0])
})

t.test('clients have turns: whoever asks for many waits behind whoever asks for one', async t => {
  const { ask, answer, names } = queueOf(1)
  for (const name of ['a1', 'a2', 'a3']) ask('a', name)
  ask('b', 'b1')
  ask('c', 'c1')
  ask('b', 'b2')
  for (const name of ['a1', 'a2', 'b1', 'c1', 'a3']) await answer(name)
  t.same(names(), ['a1', 'a2', 'b1', 'c1', 'a3', 'b2'])
})

t.test('of 300 silent names whose client has left, nothing stays but what runs already', async t => {
  const { queue, ask, names, dropped, answer } = queueOf(2)
  const leaving = Array.from({ length: 300 }, (_, i) => ask('a', `silent${i}`))
  t.same(names(), ['silent0'])
  ask('b', 'wanted')
  t.same(names(), ['silent0', 'wanted'], 'there is a place left for the next client')
  ask('b', 'next')
  for (const leave of leaving) leave()
  t.equal(dropped.length, 299)
  t.same([queue.size, queue.running], [3, 2])
  await answer('wanted')
  t.same(names(), ['silent0', 'wanted', 'next'])
  await answer('next')
  t.same([queue.size, queue.running], [1, 1], 'the one that cannot be ended')
  await answer('silent0')
  t.same([queue.size, queue.running], [0, 0])
})

t.test('a client takes a place only while it has fewer than are free', async t => {
  for (const [atOnce, expected] of [
    [1, { a: 1 }],
    [2, { a: 1, b: 1 }],
    [4, { a: 2, b: 1, c: 1 }],
    [32, { a: 16, b: 8, c: 4, d: 2, e: 1, f: 1 }],
  ] as const) {
    const { queue, ask, names } = queueOf(atOnce)
    for (const client of 'abcdefg') for (let i = 0; i < 40; i++) ask(client, client)
    const counts: Record<string, number> = {}
    for (const name of names()) counts[name] = (counts[name] ?? 0) + 1
    t.same(counts, expected)
    t.equal(queue.running, atOnce)
  }
})

t.test('what still runs for a client that has left counts as its own', async t => {
  const { ask, names, answer } = queueOf(4)
  const leaving = ['a1', 'a2'].map(name => ask('a', name))
  for (const leave of leaving) leave()
  ask('a', 'a3')
  t.same(names(), ['a1', 'a2'])
  await answer('a1')
  t.same(names(), ['a1', 'a2', 'a3'])
})

t.test('a lookup that several want is dropped when the last of them has left', async t => {
  const { queue, create, ask, dropped } = queueOf(1)
  ask('z', 'running')
  const lookup = create('shared')
  const leaving = [lookup.join('a'), lookup.join('a'), lookup.join('b')]
  t.ok(lookup.isWaiting)
  t.equal(queue.size, 2)
  for (const leave of leaving) {
    t.same(dropped, [])
    leave()
  }
  t.same(dropped, ['shared'])
  t.equal(queue.size, 1)
})

t.test('whoever joins has it in its own turn', async t => {
  const { create, ask, names, answer } = queueOf(1)
  ask('a', 'a1')
  ask('a', 'a2')
  const shared = create('shared')
  shared.join('a')
  shared.join('b')
  await answer('a1')
  await answer('a2')
  t.same(names(), ['a1', 'a2', 'shared'])

  const other = queueOf(1)
  other.ask('a', 'a1')
  other.ask('b', 'b1')
  other.ask('a', 'a2')
  const late = other.create('late')
  late.join('a')
  late.join('b')
  for (const name of ['a1', 'b1', 'a2']) await other.answer(name)
  t.same(other.names(), ['a1', 'b1', 'a2', 'late'])
  t.notOk(late.isWaiting)
})

t.test('one that runs is ended where it can be, and its place is free', async t => {
  const { queue, ask, begun, dropped, names } = queueOf(2, {}, true)
  const leaving = [ask('a', 'a1'), ask('a', 'a2')]
  for (const leave of leaving) leave()
  t.ok(begun[0]?.signal.aborted)
  t.same(dropped.sort(), ['a1', 'a2'])
  await turns(2)
  t.same([queue.size, queue.running], [0, 0])
  t.same(names(), ['a1'])

  const kept = queueOf(2)
  const leave = kept.ask('a', 'a1')
  leave()
  t.same([kept.begun[0]?.signal.aborted, kept.dropped], [false, []])
})

t.test('one that runs and that nobody wants may be wanted again', async t => {
  const { create, begun } = queueOf(1)
  const lookup = create('a')
  lookup.join('a')()
  lookup.join('b')
  begun[0]?.answer()
  t.same(await lookup.answer, ANSWER)
  t.doesNotThrow(lookup.join('c'), 'and it has nothing to leave when it is over')
})

t.test('one client: 429 over its share of different names, which is free again when it leaves', async t => {
  const { queue, create, ask, rejected } = queueOf(1, { dnsLookupsPerClient: 2 })
  const leave = ask('a', 'a1')
  const lookup = create('a2')
  lookup.join('a')
  t.throws(() => ask('a', 'a3'), {
    message: 'too many names of this client wait to be looked up',
    status: 429,
    reason: 'limit_dns_lookups_per_client',
    fields: ['Retry-After', '5'],
  })
  t.doesNotThrow(() => lookup.join('a'), 'the same name again is no other')
  const others = create('b1')
  others.join('b')
  t.throws(() => others.join('a'), { message: /./, status: 429 }, 'nor may it join what others want')
  t.same(rejected, ['dns_lookups_per_client', 'dns_lookups_per_client'])
  t.equal(queue.size, 3)
  leave()
  ask('a', 'a3')
})

t.test('in all: 503, but for those who join and for the names of the configuration', async t => {
  const { queue, create, ask, rejected } = queueOf(1, { dnsLookups: 2, dnsLookupsPerClient: 2 })
  ask('a', 'a1')
  const lookup = create('b1')
  const leave = lookup.join('b')
  t.throws(() => ask('c', 'c1'), {
    message: 'too many names wait to be looked up',
    status: 503,
    reason: 'limit_dns_lookups',
    fields: ['Retry-After', '5'],
  })
  t.same(rejected, ['dns_lookups'])
  lookup.join('c')()
  for (const name of ['own1', 'own2', 'own3']) ask(undefined, name)
  t.equal(queue.size, 5)
  leave()
  t.equal(queue.size, 4)
})

t.test('other bounds hold from when they are set, and what runs goes on', async t => {
  const { queue, ask, names, answer } = queueOf(1, { dnsLookups: 3 })
  for (const client of 'abc') ask(client, client)
  t.throws(() => ask('d', 'd'))
  queue.configure({ dnsLookups: 4, dnsLookupsPerClient: 1 }, 2)
  t.same(names(), ['a', 'b'], 'what there is a place for now begins')
  ask('d', 'd')
  t.throws(() => ask('d', 'd2'), { message: /./, status: 429 })
  queue.configure({ dnsLookups: 4, dnsLookupsPerClient: 1 }, 1)
  await answer('a')
  t.same(names(), ['a', 'b'])
  await answer('b')
  t.same(names(), ['a', 'b', 'c'])
})

t.test('a lookup that throws is a defect, and gives its place back', async t => {
  const queue = new LookupQueue({
    limits: { dnsLookups: 1, dnsLookupsPerClient: 1 },
    atOnce: 1,
    onRejected: () => {},
  })
  const defect = new Error('defect')
  const lookup = queue.create({
    endsAtAbort: false,
    run: () => {
      throw defect
    },
    onDrop: () => {},
  })
  lookup.join('a')
  await t.rejects(lookup.answer, { message: 'internal error', type: 'proxy_internal_error', cause: defect })
  t.same([queue.size, queue.running], [0, 0])
})
