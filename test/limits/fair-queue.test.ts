import t from 'tap'
import type { ProxyError } from '../../src/errors.js'
import {
  FairQueue,
  type QueueClient,
  type QueuedWork,
  type QueueLimits,
} from '../../src/limits/fair-queue.js'
import { limitReached } from '../../src/limits/refusals.js'
import { turns } from '../kit/peers/until-stable.js'

const ANSWER = { one: 'answer' }

type Answer = typeof ANSWER

interface Begun {
  readonly name: string
  readonly signal: AbortSignal
  answer(): void
  fail(error: Error): void
}

/** Refuses as lookups are. */
const refusalOf = (limit: keyof QueueLimits, value: number, key?: string) =>
  limitReached(limit === 'inAll' ? 'dns_lookups' : 'dns_lookups_per_client', `${value}`, { key })

/** A queue of lookups, which the test answers in whatever order. */
function queueOf(atOnce: number, limits: Partial<QueueLimits> = {}, endsAtAbort = false) {
  const begun: Begun[] = []
  const dropped: string[] = []
  const rejected: string[] = []
  const queue = new FairQueue<Answer>({
    limits: { inAll: 1000, perClient: 1000, ...limits },
    atOnce,
    refuse: (limit, value, key) => {
      rejected.push(limit)
      return refusalOf(limit, value, key)
    },
  })
  const create = (name: string): QueuedWork<Answer> =>
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
  const ask = (client: QueueClient, name: string): (() => void) => create(name).join(client)
  /** Answers one that was begun, and waits until the next have begun in its place. */
  const answer = async (name: string): Promise<void> => {
    begun.find(one => one.name === name)?.answer()
    await turns(2)
  }
  const names = (): string[] => begun.map(({ name }) => name)
  return { queue, create, ask, answer, begun, names, dropped, rejected }
}

t.test('a limited number of jobs run at a time, and the next begins when one has ended', async t => {
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

t.test('clients take turns: one with many jobs waits behind one with a single job', async t => {
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

t.test('a client starts a job only while it runs fewer than there are free places', async t => {
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

t.test('a running job counts for its client even after that has disconnected', async t => {
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

t.test('a client that joins a job has it in its own turn', async t => {
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

t.test('a running job is ended if that is possible, and its place is free', async t => {
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

t.test('a running job that nobody waits for can be joined again', async t => {
  const { create, begun } = queueOf(1)
  const lookup = create('a')
  lookup.join('a')()
  lookup.join('b')
  begun[0]?.answer()
  t.same(await lookup.answer, ANSWER)
  t.doesNotThrow(lookup.join('c'), 'and it has nothing to leave when it is over')
})

t.test('one client: 429 over its share of different names, which is free again when it leaves', async t => {
  const { queue, create, ask, rejected } = queueOf(1, { perClient: 2 })
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
  t.same(rejected, ['perClient', 'perClient'])
  t.equal(queue.size, 3)
  leave()
  ask('a', 'a3')
})

t.test(
  'a full queue is 503, except for clients that join a job and for names of the configuration',
  async t => {
    const { queue, create, ask, rejected } = queueOf(1, { inAll: 2, perClient: 2 })
    ask('a', 'a1')
    const lookup = create('b1')
    const leave = lookup.join('b')
    t.throws(() => ask('c', 'c1'), {
      message: 'too many names wait to be looked up',
      status: 503,
      reason: 'limit_dns_lookups',
      fields: ['Retry-After', '5'],
    })
    t.same(rejected, ['inAll'])
    lookup.join('c')()
    for (const name of ['own1', 'own2', 'own3']) ask(undefined, name)
    t.equal(queue.size, 5)
    leave()
    t.equal(queue.size, 4)
  },
)

t.test(
  'in a full queue the client with the most waiting jobs loses the last of them, so that four clients cannot fill it',
  async t => {
    const { queue, ask, answer, names, dropped, rejected, begun } = queueOf(1, { inAll: 65, perClient: 20 })
    for (const client of ['a', 'b', 'c']) for (let i = 0; i < 20; i++) ask(client, `${client}${i}`)
    for (let i = 0; i < 5; i++) ask('d', `d${i}`)
    t.equal(queue.size, 65)
    ask('e', 'e')
    t.same([queue.size, dropped], [65, ['b19']], 'one of those of a runs')
    t.same(rejected, ['inAll'])
    for (const client of 'fghij') ask(client, client)
    t.same(dropped, ['b19', 'c19', 'a19', 'b18', 'c18', 'a18'])
    for (let i = 0; i < begun.length; i++) await answer(begun[i]?.name ?? '')
    t.same(names().slice(0, 10), ['a0', 'a1', 'b0', 'c0', 'd0', 'e', 'f', 'g', 'h', 'i'])
    t.same(
      names().filter(name => dropped.includes(name)),
      [],
    )
    t.same([queue.size, queue.running, names().length], [0, 0, 65])
  },
)

t.test('a job that made room is rejected; clients with fewer jobs, and shared jobs, make none', async t => {
  const { create, ask, dropped, queue } = queueOf(1, { inAll: 5 })
  ask('z', 'running')
  const works = ['a1', 'a2', 'a3', 'a4'].map(name => create(name))
  const leaving = works.map(work => work.join('a'))
  works[3]?.join('b')
  const refused = t.rejects((works[2] as QueuedWork<Answer>).answer, {
    message: /./,
    status: 503,
    reason: 'limit_dns_lookups',
  })
  ask('c', 'c1')
  await refused
  t.same(dropped, ['a3'], 'the last that is of one client alone')
  for (const leave of leaving.slice(2, 3)) leave()
  t.equal(queue.size, 5, 'it has left already')
  ask('c', 'c2')
  t.same(dropped, ['a3', 'a2'])
  t.throws(() => ask('c', 'c3'), { message: /./, status: 503 }, 'nobody has more than two')
  ask('d', 'd1')
  ask('e', 'e1')
  t.same(dropped, ['a3', 'a2', 'a1', 'c2'])
  t.throws(() => ask('e', 'e2'), { message: /./, status: 503 })
})

t.test('jobs of the proxy itself make no room', async t => {
  const { ask, dropped } = queueOf(1, { inAll: 3 })
  for (const name of ['own1', 'own2', 'own3', 'own4']) ask(undefined, name)
  t.throws(() => ask('a', 'a1'), { message: /./, status: 503 })
  t.same(dropped, [])
})

t.test('new limits apply from when they are set, and running jobs continue', async t => {
  const { queue, ask, names, answer } = queueOf(1, { inAll: 3 })
  for (const client of 'abc') ask(client, client)
  t.throws(() => ask('d', 'd'))
  queue.configure({ inAll: 4, perClient: 1 }, 2)
  t.same(names(), ['a', 'b'], 'what there is a place for now begins')
  ask('d', 'd')
  t.throws(() => ask('d', 'd2'), { message: /./, status: 429 })
  queue.configure({ inAll: 4, perClient: 1 }, 1)
  await answer('a')
  t.same(names(), ['a', 'b'])
  await answer('b')
  t.same(names(), ['a', 'b', 'c'])
})

t.test('a lookup that throws is a defect, and gives its place back', async t => {
  const queue = new FairQueue<Answer>({
    limits: { inAll: 1, perClient: 1 },
    atOnce: 1,
    refuse: refusalOf,
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

t.test('a client may have a limit of its own, whose key the refusal names', async t => {
  const { create, queue } = queueOf(1, { perClient: 2 })
  const ask = (client: QueueClient, name: string, perClient?: number) =>
    create(name).join(client, perClient === undefined ? undefined : { perClient, key: 'its.key' })
  const detailOf = (act: () => void): string | undefined => {
    try {
      act()
    } catch (error) {
      return (error as ProxyError).detail
    }
    return undefined
  }
  ask('a', 'a1', 3)
  ask('a', 'a2', 3)
  const leave = ask('a', 'a3', 3)
  t.match(
    detailOf(() => ask('a', 'a4', 3)),
    /as its\.key allows \(3\)/,
  )
  leave()
  ask('a', 'a4', 3)
  ask('b', 'b1', 1)
  t.match(
    detailOf(() => ask('b', 'b2', 1)),
    /as its\.key allows \(1\)/,
  )
  ask('c', 'c1')
  ask('c', 'c2')
  t.match(
    detailOf(() => ask('c', 'c3')),
    /limits\.dns_lookups_per_client allows \(2\)/,
  )
  t.equal(queue.size, 6)
})
