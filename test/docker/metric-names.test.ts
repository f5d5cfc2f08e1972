import { register as globalRegister } from 'prom-client'
import t from 'tap'
import { serializeMetrics } from '../../src/observe/exposition.js'
import { createProcessMetrics, Metrics } from '../../src/observe/metrics.js'
import { parseExposition } from '../kit/peers/exposition.js'
import { OTHER_METRICS, SLUICE_METRICS } from './metric-names.js'

t.test('dashboards and alerts may use exactly the existing metrics with their labels', async t => {
  const process = createProcessMetrics()
  const metrics = new Metrics({
    configHash: () => 'abc',
    tunnels: () => ({ size: 0, bytesUp: 0, bytesDown: 0 }),
    upstreams: () => [
      {
        route: '/',
        upstream: 'http://a.test:80',
        up: false,
        downSinceMs: 1,
        lastTriedMs: 1,
        error: 'no address',
        failures: new Map([['dns_error', 1]]),
      },
    ],
    cache: () => ({
      kind: 'memory',
      sizeBytes: 1,
      stats: async () => ({ entries: 1, bytes: 1, evictions: 0, up: true }),
      purge: async () => 0,
    }),
    certificates: () => [{ key: 'listen.tls.cert', expiresMs: 1 }],
    lostLogLines: () => 0,
    build: { version: '1', node: '20' },
    process,
  })
  t.teardown(() => metrics.close())
  const subject = {
    id: 'a',
    client: 'a',
    clientAddress: '127.0.0.1',
    kind: 'connect',
    method: 'CONNECT',
  } as const
  const decision = { decision: 'deny', reason: 'host', dnsMs: 1 } as const
  metrics.exchanges.decision(subject, decision)
  const outcome = {
    handler: 'refusal',
    status: 403,
    closeReason: 'refused',
    bytesUp: 0,
    bytesDown: 0,
  } as const
  metrics.exchanges.close(subject, outcome, 1, decision)
  const { families } = parseExposition(
    (await serializeMetrics([await metrics.report()], 'text')).text,
    'text',
  )
  const labels = Object.fromEntries(
    [...families]
      .filter(([name]) => name.startsWith('sluice_'))
      .map(([name, { samples }]) => [
        name,
        [
          ...new Set(
            [...samples.keys()].flatMap(series =>
              [...series.matchAll(/[{,](\w+)="/g)].map(([, label]) => label),
            ),
          ),
        ],
      ]),
  )
  t.same(Object.keys(labels).sort(), Object.keys(SLUICE_METRICS).sort())
  for (const [name, found] of Object.entries(labels)) {
    const known: Readonly<Record<string, readonly string[]>> = SLUICE_METRICS
    // A metric whose label values are not known in advance has no series yet.
    if (found.length > 0) t.same([...found].sort(), [...(known[name] ?? [])].sort(), name)
  }
  for (const name of OTHER_METRICS) if (name !== 'up') t.ok(families.has(name), name)
  t.same(await globalRegister.getMetricsAsArray(), [], 'nothing is in the registry that all share')
})
