import t from 'tap'
import { MAX_TUNNELS, mergeStatus } from '../../src/observe/merge-status.js'
import type { DenialGroup, FailureGroup } from '../../src/observe/worker-status.js'
import type { TunnelStatus } from '../../src/tunnel/registry.js'
import { traffic, workerStatus } from '../kit/fakes/worker-status.js'

const tunnel = (id: string, bytesUp: number, ageMs = 0): TunnelStatus => ({
  id,
  client: undefined,
  user: undefined,
  clientAddress: '10.0.0.1',
  kind: 'connect',
  host: 'a.test',
  port: 443,
  rule: 'web',
  address: '192.0.2.1',
  ageMs,
  bytesUp,
  bytesDown: 0,
})
const denial = (host: string, more: Partial<DenialGroup> = {}): DenialGroup => ({
  client: 'ci',
  user: undefined,
  clientAddress: '10.0.0.1',
  kind: 'connect',
  method: 'CONNECT',
  host,
  port: 443,
  decision: 'deny',
  reason: 'no_rule',
  rule: undefined,
  detail: undefined,
  remedy: [],
  count: 1,
  firstMs: 1,
  lastMs: 1,
  ...more,
})
const merged = (...lists: [number, number[]][]) => {
  const found = mergeStatus(lists.map(([end, requests]) => workerStatus({ traffic: traffic(end, requests) })))
  return [found.traffic.endSecond, found.traffic.requests]
}

t.test('rates are added second by second, up to the last that all have told', async t => {
  t.same(merged([9, [1, 2, 3]], [9, [10, 20, 30]]), [9, [11, 22, 33]])
  t.same(merged([9, [1, 2, 3]], [8, [10, 20, 30]]), [8, [10, 21, 32]], 'one second apart')
  t.same(merged([9, [1, 2, 3]], [9, [7]]), [9, [1, 2, 10]], 'one that has just started')
  t.same(merged([9, [1]], [2, [7, 7, 7]]), [6, [7, 7, 7, 0, 0, 0, 0]], 'one that hangs is not waited for')
  const [, late] = merged([5000, [1]], [0, [7]])
  t.equal((late as number[]).length, 900, 'and what it told is forgotten')
  t.same(merged([9, [1, 2]]), [9, [1, 2]])
  t.same(merged(), [0, []])
})

t.test('latencies are added bucket by bucket', async t => {
  const found = mergeStatus([
    workerStatus({ latencies: { dns: [1, 2], dial: [], firstByte: [0, 0, 5] } }),
    workerStatus({ latencies: { dns: [1, 0, 4], dial: [], firstByte: [] } }),
  ])
  t.same(found.latencies, { dns: [2, 2, 4], dial: [], firstByte: [0, 0, 5] })
})

t.test(
  'tunnels are listed together, the oldest first, those with the most bytes when there are too many',
  async t => {
    const few = mergeStatus([
      workerStatus({ tunnels: { open: 7, listed: [tunnel('a', 1, 5)] } }),
      workerStatus({ tunnels: { open: 2, listed: [tunnel('b', 9, 3), tunnel('c', 0, 9)] } }),
    ]).tunnels
    t.equal(few.open, 9)
    t.same(
      few.listed.map(({ id }) => id),
      ['c', 'a', 'b'],
    )
    const many = Array.from({ length: MAX_TUNNELS }, (_, i) => tunnel(`m${i}`, i + 1))
    const cut = mergeStatus([
      workerStatus({ tunnels: { open: MAX_TUNNELS, listed: many } }),
      workerStatus({ tunnels: { open: 2, listed: [tunnel('big', 1e6), tunnel('none', 0)] } }),
    ]).tunnels
    t.equal(cut.open, MAX_TUNNELS + 2)
    t.equal(cut.listed.length, MAX_TUNNELS)
    const ids = cut.listed.map(({ id }) => id)
    t.ok(ids.includes('big'))
    t.notOk(ids.includes('none'))
    t.notOk(ids.includes('m0'))
  },
)

t.test('refusals of the same kind are counted together, with the last of what was said', async t => {
  const found = mergeStatus([
    workerStatus({
      denials: { dropped: 1, listed: [denial('a.test', { count: 3, firstMs: 5, lastMs: 9, detail: 'new' })] },
    }),
    workerStatus({
      denials: {
        dropped: 2,
        listed: [
          denial('b.test', { lastMs: 20 }),
          denial('a.test', { count: 4, firstMs: 2, lastMs: 8, detail: 'old' }),
        ],
      },
    }),
  ]).denials
  t.equal(found.dropped, 3)
  t.same(
    found.listed.map(({ host, count, firstMs, lastMs, detail }) => [host, count, firstMs, lastMs, detail]),
    [
      ['b.test', 1, 1, 20, undefined],
      ['a.test', 7, 2, 9, 'new'],
    ],
  )
  const full = (from: number) => Array.from({ length: 150 }, (_, i) => denial(`h${from + i}.test`))
  const cut = mergeStatus(
    [0, 150].map(from => workerStatus({ denials: { dropped: 0, listed: full(from) } })),
  ).denials
  t.equal(cut.listed.length, 200)
  t.equal(cut.dropped, 100)
})

t.test('where the lists of the workers are too long together, a flood in one of them makes room', async t => {
  const flood = Array.from({ length: 200 }, (_, i) => denial(`h${i}.test`, { lastMs: 1000 + i }))
  const real = Array.from({ length: 15 }, (_, i) => denial(`r${i}.test`, { reason: 'deny_host', lastMs: i }))
  const { dropped, listed } = mergeStatus([
    workerStatus({ denials: { dropped: 7, listed: flood } }),
    workerStatus({ denials: { dropped: 0, listed: real } }),
  ]).denials
  t.same([dropped, listed.length], [22, 200])
  t.equal(listed.filter(({ reason }) => reason === 'deny_host').length, 15)
  t.equal(listed[0]?.host, 'h199.test')
  t.notOk(listed.some(({ host }) => host === 'h14.test'))
  t.ok(listed.some(({ host }) => host === 'h15.test'))
})

t.test('refusals of two users stay two', async t => {
  const of = (user: string) => workerStatus({ denials: { dropped: 0, listed: [denial('a.test', { user })] } })
  const { listed } = mergeStatus([of('alice'), of('bob'), of('alice')]).denials
  t.same(
    listed.map(({ user, count }) => [user, count]),
    [
      ['alice', 2],
      ['bob', 1],
    ],
  )
})

t.test('tunnels of one client in several workers are one share of the limit', async t => {
  const of = (user: string, tunnels: number) => ({ client: 'ci', user, clientAddress: undefined, tunnels })
  const few = Array.from({ length: 120 }, (_, i) => of(`few${i}`, 1))
  const { shares } = mergeStatus([
    workerStatus({ shares: [of('bob', 4), of('alice', 3)] }),
    workerStatus({ shares: [of('alice', 3), ...few] }),
  ])
  t.equal(shares.length, 100)
  t.same(shares.slice(0, 2), [of('alice', 6), of('bob', 4)])
})

t.test(
  'an upstream is down if one worker cannot reach it, since the first noticed and with the last error',
  async t => {
    const upstream = (failures: number, downSinceMs?: number, lastTriedMs?: number, error?: string) => ({
      route: '/',
      upstream: 'http://a.test',
      up: downSinceMs === undefined,
      downSinceMs,
      lastTriedMs,
      error,
      failures,
    })
    const other = { ...upstream(0), route: '/x' }
    const found = mergeStatus([
      workerStatus({ upstreams: [upstream(1), other] }),
      workerStatus({ upstreams: [upstream(2, 9, 12, 'new'), other] }),
      workerStatus({ upstreams: [upstream(3, 5, 11, 'old'), other] }),
      workerStatus({ upstreams: [upstream(4), other] }),
    ])
    t.same(found.upstreams, [upstream(10, 5, 12, 'new'), other])
  },
)

t.test('failures of the same kind are counted together, with what was told last', async t => {
  const failure = (host: string, more: Partial<FailureGroup> = {}): FailureGroup => ({
    kind: 'connect',
    host,
    port: 443,
    rule: 'web',
    reason: 'dns_error',
    parent: undefined,
    client: 'ci',
    user: undefined,
    clientAddress: '10.0.0.1',
    detail: 'old',
    count: 1,
    firstMs: 1,
    lastMs: 1,
    ...more,
  })
  const found = mergeStatus([
    workerStatus({
      failures: {
        dropped: 1,
        listed: [failure('a.test', { count: 3, firstMs: 5, lastMs: 9, detail: 'new' })],
      },
    }),
    workerStatus({
      failures: {
        dropped: 0,
        listed: [
          failure('a.test', { client: 'other', count: 2 }),
          failure('a.test', { parent: 'http://p:1' }),
        ],
      },
    }),
  ]).failures
  t.equal(found.dropped, 1)
  t.same(
    found.listed.map(({ client, parent, count, firstMs, lastMs, detail }) => [
      client,
      parent,
      count,
      firstMs,
      lastMs,
      detail,
    ]),
    [
      ['ci', undefined, 5, 1, 9, 'new'],
      ['ci', 'http://p:1', 1, 1, 1, 'old'],
    ],
  )
})
