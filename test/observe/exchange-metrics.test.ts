import t from 'tap'
import { PROXY_ERRORS, ProxyError, type ProxyErrorType } from '../../src/errors.js'
import { limitReached } from '../../src/limits/refusals.js'
import { METHOD_NAMES } from '../../src/http/method.js'
import { ExchangeMetrics } from '../../src/observe/exchange-metrics.js'
import { DECISIONS, EXCHANGE_KINDS, type Subject } from '../../src/pipeline/exchange-observer.js'
import { serializeMetrics } from '../../src/observe/exposition.js'
import { DIAL_ERRORS } from '../../src/observe/refusal-reasons.js'
import { CACHE_RESULTS, type Outcome } from '../../src/outcome.js'
import { parseExposition } from '../kit/peers/exposition.js'

const SUBJECT: Subject = {
  id: 'a',
  client: 'ci',
  clientAddress: '10.0.0.1',
  kind: 'forward',
  method: 'GET',
  host: 'a.test',
  port: 80,
  path: '/secret',
}
const TUNNEL: Subject = { ...SUBJECT, kind: 'connect', method: 'CONNECT', port: 443, path: undefined }
const OUTCOME: Outcome = {
  handler: 'forward',
  status: 200,
  closeReason: 'complete',
  bytesUp: 0,
  bytesDown: 0,
}

function measured() {
  const tunnels = { size: 0, bytesUp: 0, bytesDown: 0 }
  const metrics = new ExchangeMetrics(() => tunnels)
  return {
    metrics,
    tunnels,
    scrape: async () => parseExposition((await serializeMetrics([metrics.report()], 'text')).text, 'text'),
  }
}

t.test('requests are counted by kind, method, decision and code, each for itself', async t => {
  const { metrics, scrape } = measured()
  const methods = [...METHOD_NAMES, 'PROPFIND', 'connect', '__proto__', '']
  const codes = [0, 100, 200, 407, 599, 999]
  for (const kind of EXCHANGE_KINDS) {
    for (const method of methods) {
      for (const decision of DECISIONS) {
        for (const status of codes) {
          metrics.close({ ...SUBJECT, kind, method }, { ...OUTCOME, status }, 1, { decision })
        }
      }
    }
  }
  const scraped = await scrape()
  const samples = scraped.families.get('sluice_requests_total')?.samples ?? new Map<string, number>()
  t.equal(samples.size, EXCHANGE_KINDS.length * (METHOD_NAMES.length + 1) * DECISIONS.length * codes.length)
  for (const kind of EXCHANGE_KINDS) {
    for (const method of [...METHOD_NAMES, 'other']) {
      for (const decision of DECISIONS) {
        for (const code of codes) {
          const labels = `kind="${kind}",method="${method}",decision="${decision}",code="${code}"`
          t.equal(samples.get(`sluice_requests_total{${labels}}`), method === 'other' ? 4 : 1, labels)
        }
      }
    }
  }
})

t.test('no label says who asked, for what, or where it went', async t => {
  const { metrics, scrape } = measured()
  metrics.decision(SUBJECT, { decision: 'deny', rule: 'web', reason: 'no_rule' })
  metrics.close(SUBJECT, { ...OUTCOME, address: '10.0.0.2:80' }, 1, { decision: 'deny' })
  const { families } = await scrape()
  const text = [...families.values()].flatMap(({ samples }) => [...samples.keys()]).join('\n')
  for (const part of ['a.test', '10.0.0.', 'secret', '"ci"', 'web']) t.notMatch(text, part)
})

t.test('a denial counts by its reason, one that is observed does not', async t => {
  const { metrics, scrape } = measured()
  metrics.decision(SUBJECT, { decision: 'deny', reason: 'no_rule' })
  metrics.decision(SUBJECT, { decision: 'deny', reason: 'port' })
  metrics.decision(SUBJECT, { decision: 'deny', reason: 'port' })
  metrics.decision(SUBJECT, { decision: 'would_deny', reason: 'method' })
  metrics.decision(SUBJECT, { decision: 'allow', reason: 'connection_refused' })
  metrics.decision(SUBJECT, { decision: 'deny', reason: 'made_up' })
  metrics.decision(SUBJECT, { decision: 'deny' })
  const cut = { handler: 'tunnel', serverName: { fault: 'sni_mismatch', sent: 'b.test' } } as const
  metrics.close(SUBJECT, { ...OUTCOME, ...cut }, 1, { decision: 'allow' })
  t.same((await scrape()).counted('sluice_denied_total'), {
    'sluice_denied_total{reason="no_rule"}': 1,
    'sluice_denied_total{reason="port"}': 2,
    'sluice_denied_total{reason="sni_mismatch"}': 1,
    'sluice_denied_total{reason="other"}': 2,
  })
})

t.test('bytes are those of exchanges that are over, and those of tunnels at any time', async t => {
  const { metrics, tunnels, scrape } = measured()
  metrics.close(SUBJECT, { ...OUTCOME, bytesUp: 3, bytesDown: 50 }, 1, { decision: 'allow' })
  metrics.close(SUBJECT, { ...OUTCOME, bytesUp: 4, bytesDown: 0, closeReason: 'client_gone' }, 1, {
    decision: 'allow',
  })
  tunnels.size = 2
  tunnels.bytesUp = 100
  tunnels.bytesDown = 1000
  // Counted by whoever keeps the tunnels.
  metrics.close(TUNNEL, { ...OUTCOME, handler: 'tunnel', bytesUp: 7, bytesDown: 8 }, 2000, {
    decision: 'allow',
  })
  metrics.close(SUBJECT, { ...OUTCOME, status: 101, bytesUp: 7, bytesDown: 8 }, 4000, { decision: 'allow' })
  metrics.close(TUNNEL, { ...OUTCOME, handler: 'tunnel', status: 502 }, 1, { decision: 'allow' })
  const scraped = await scrape()
  t.equal(scraped.value('sluice_bytes_total{direction="up"}'), 107)
  t.equal(scraped.value('sluice_bytes_total{direction="down"}'), 1050)
  t.equal(scraped.value('sluice_tunnels_active'), 2)
  t.equal(scraped.value('sluice_tunnel_duration_seconds_count'), 2)
  t.equal(scraped.value('sluice_tunnel_duration_seconds_sum'), 6)
})

t.test(
  'requests that met the cache are counted by what it made of them, with the bytes it served',
  async t => {
    const { metrics, scrape } = measured()
    metrics.close(SUBJECT, { ...OUTCOME, bytesDown: 1000 }, 1, { decision: 'allow' })
    t.same((await scrape()).counted('sluice_cache_requests_total'), {})
    for (const [at, result] of CACHE_RESULTS.entries()) {
      const cache = { result, stored: false }
      metrics.close(SUBJECT, { ...OUTCOME, bytesDown: 2 ** at, cache }, 1, { decision: 'allow' })
    }
    metrics.close(SUBJECT, { ...OUTCOME, cache: { result: 'hit', stored: false } }, 1, { decision: 'allow' })
    const scraped = await scrape()
    t.equal(scraped.sum('sluice_cache_requests_total'), CACHE_RESULTS.length + 1)
    t.equal(scraped.value('sluice_cache_requests_total{result="hit"}'), 2)
    t.equal(scraped.value('sluice_cache_requests_total{result="only_if_cached"}'), 1)
    // hit, stale_hit, revalidated and collapsed are the first four.
    t.equal(scraped.value('sluice_cache_served_bytes_total'), 1 + 2 + 4 + 8)
    t.match(metrics.cache, { results: { hit: 2, vary_miss: 1 }, servedBytes: 15 })
  },
)

t.test('times are in seconds, and only of what took any', async t => {
  const { metrics, scrape } = measured()
  metrics.close(SUBJECT, OUTCOME, 1, { decision: 'allow' })
  metrics.close(SUBJECT, OUTCOME, 1, { decision: 'allow', dnsMs: 250 })
  const observed = { decision: 'would_deny', dnsMs: 500 } as const
  metrics.decision(SUBJECT, observed)
  metrics.close(SUBJECT, { ...OUTCOME, connectMs: 2000 }, 1, observed)
  const scraped = await scrape()
  t.equal(scraped.value('sluice_dns_seconds_count'), 2)
  t.equal(scraped.value('sluice_dns_seconds_sum'), 0.75)
  t.equal(scraped.value('sluice_dns_seconds_bucket{le="0.1"}'), 0)
  t.equal(scraped.value('sluice_dns_seconds_bucket{le="0.25"}'), 1)
  t.equal(scraped.value('sluice_dial_seconds_count'), 1)
  t.equal(scraped.value('sluice_dial_seconds_sum'), 2)
})

t.test('requests that were let through have a duration, and a first byte where there was one', async t => {
  const { metrics, scrape } = measured()
  const allow = { decision: 'allow' } as const
  metrics.close(SUBJECT, { ...OUTCOME, firstByteMs: 4 }, 5, allow)
  metrics.close(SUBJECT, { ...OUTCOME, firstByteMs: 5.1 }, 2000, { decision: 'would_deny' })
  metrics.close(TUNNEL, { ...OUTCOME, handler: 'tunnel', status: 502 }, 400_000, allow)
  metrics.close(SUBJECT, { ...OUTCOME, handler: 'refusal', status: 403 }, 1, { decision: 'deny' })
  const scraped = await scrape()
  const value = (of: string, part: string) => scraped.value(`sluice_${of}_seconds_${part}`)
  t.equal(value('request_duration', 'count'), 3, 'what was refused took no time that says anything')
  t.equal(value('request_duration', 'sum'), 402.005)
  const within = ['0.0025', '0.005', '1', '2.5', '300', '+Inf']
  t.same(
    within.map(le => value('request_duration', `bucket{le="${le}"}`)),
    [0, 1, 1, 2, 2, 3],
  )
  t.equal(value('first_byte', 'count'), 2)
  t.same(
    ['0.0025', '0.005', '0.01', '60', '+Inf'].map(le => value('first_byte', `bucket{le="${le}"}`)),
    [0, 1, 2, 2, 2],
  )
  t.equal(scraped.value('sluice_first_byte_seconds_bucket{le="300"}'), undefined)
})

t.test('a tunnel has no duration of a request, but after an upgrade a first byte', async t => {
  const { metrics, scrape } = measured()
  metrics.close(TUNNEL, { ...OUTCOME, handler: 'tunnel' }, 2000, { decision: 'allow' })
  metrics.close(SUBJECT, { ...OUTCOME, status: 101, firstByteMs: 7 }, 4000, { decision: 'allow' })
  const scraped = await scrape()
  t.equal(scraped.value('sluice_request_duration_seconds_count'), 0)
  t.equal(scraped.value('sluice_first_byte_seconds_count'), 1)
})

t.test('failures count by their reason, one that is not listed as other', async t => {
  const { metrics, scrape } = measured()
  const fail = (error: ProxyError, decision: (typeof DECISIONS)[number] = 'allow') =>
    metrics.close(SUBJECT, { ...OUTCOME, status: error.status, error }, 1, { decision })
  fail(new ProxyError('dns_error', 'x'))
  fail(new ProxyError('dns_error', 'x'), 'would_deny')
  fail(new ProxyError('connection_refused', 'x', { reason: 'parent_failed' }))
  fail(new ProxyError('http_protocol_error', 'x', { reason: 'made_up' }))
  fail(new ProxyError('http_request_denied', 'x', { reason: 'no_rule' }), 'deny')
  fail(limitReached('tunnels', '1'), 'deny')
  t.same((await scrape()).counted('sluice_failures_total'), {
    'sluice_failures_total{reason="dns_error"}': 2,
    'sluice_failures_total{reason="parent_failed"}': 1,
    'sluice_failures_total{reason="other"}': 1,
  })
  t.match(metrics.totals, { requests: 6, denied: 2, failed: 4 })
})

t.test(
  'the totals of refusals are those of sluice_denied_total, would-be refusals count when decided',
  async t => {
    const { metrics, scrape } = measured()
    const refuse = (decision: 'deny' | 'would_deny') =>
      metrics.decision(SUBJECT, { decision, reason: 'no_rule' })
    refuse('deny')
    metrics.close(SUBJECT, { ...OUTCOME, status: 403 }, 1, { decision: 'deny' })
    refuse('would_deny')
    refuse('would_deny')
    t.match(metrics.totals, { requests: 1, denied: 1, wouldDeny: 2 }, 'also of a tunnel that stays open')
    metrics.close(SUBJECT, OUTCOME, 1, { decision: 'would_deny' })
    const cut = { ...OUTCOME, handler: 'tunnel', serverName: { fault: 'sni_missing' } } as const
    metrics.close(TUNNEL, cut, 1, { decision: 'allow' })
    t.match(metrics.totals, { requests: 2, denied: 2, wouldDeny: 2 })
    const counted = Object.values((await scrape()).counted('sluice_denied_total'))
    t.equal(
      counted.reduce((sum, count) => sum + count, 0),
      2,
    )
  },
)

t.test('what a tunnel took counts when it is established, and not again when it is over', async t => {
  const { metrics, scrape } = measured()
  const counts = async () => {
    const scraped = await scrape()
    return ['dial', 'dns'].map(of => scraped.value(`sluice_${of}_seconds_count`))
  }
  metrics.tunnelOpened(undefined, undefined)
  t.same(await counts(), [0, 0])
  metrics.tunnelOpened(2000, undefined)
  t.same(await counts(), [1, 0])
  metrics.tunnelOpened(2000, 5)
  t.same(await counts(), [2, 1])
  const decided = { decision: 'allow', dnsMs: 5 } as const
  metrics.close(TUNNEL, { ...OUTCOME, handler: 'tunnel', connectMs: 2000 }, 1, decided)
  metrics.close(SUBJECT, { ...OUTCOME, status: 101, connectMs: 2000 }, 1, decided)
  t.same(await counts(), [2, 1])
  metrics.close(TUNNEL, { ...OUTCOME, handler: 'tunnel', status: 502, connectMs: 2000 }, 1, decided)
  t.same(await counts(), [3, 2], 'one that never was established')
})

t.test('a failure counts as one to connect while nothing was connected to', async t => {
  for (const type of Object.keys(PROXY_ERRORS) as ProxyErrorType[]) {
    const { metrics, scrape } = measured()
    const error = new ProxyError(type, 'x')
    metrics.close(SUBJECT, { ...OUTCOME, status: 502, error, address: '192.0.2.1:80' }, 1, {
      decision: 'allow',
    })
    t.same((await scrape()).counted('sluice_dial_errors_total'), {}, `${type} on a connection`)
    metrics.close(SUBJECT, { ...OUTCOME, status: 502, error }, 1, { decision: 'allow' })
    const expected = DIAL_ERRORS.some(name => name === type)
      ? { [`sluice_dial_errors_total{error="${type}"}`]: 1 }
      : {}
    t.same((await scrape()).counted('sluice_dial_errors_total'), expected, type)
  }
  const { metrics, scrape } = measured()
  const error = limitReached('tunnels', '1')
  metrics.close(SUBJECT, { ...OUTCOME, status: 503, error }, 1, { decision: 'deny' })
  t.same((await scrape()).counted('sluice_dial_errors_total'), {}, 'a limit of ours is none')
})

t.test('a limit that was reached counts by its name', async t => {
  const { metrics, scrape } = measured()
  const error = (reason: string) => new ProxyError('http_request_error', 'x', { reason })
  for (const reason of ['header_bytes', 'malformed', 'store_full', 'header_bytes']) {
    metrics.close(SUBJECT, { ...OUTCOME, status: 431, error: error(reason) }, 1, { decision: 'deny' })
  }
  t.same((await scrape()).counted('sluice_limit_rejections_total'), {
    'sluice_limit_rejections_total{limit="header_bytes"}': 2,
    'sluice_limit_rejections_total{limit="store_full"}': 1,
  })
})

t.test('totals are of requests that are over, tunnels not among them, refused ones told apart', async t => {
  const { metrics } = measured()
  const close = (
    kind: Subject['kind'],
    method: string,
    status: number,
    decision: (typeof DECISIONS)[number],
  ) =>
    metrics.close({ ...SUBJECT, kind, method }, { ...OUTCOME, status, bytesUp: 1, bytesDown: 2 }, 1, {
      decision,
    })
  t.same(metrics.totals, { requests: 0, denied: 0, wouldDeny: 0, failed: 0, bytesUp: 0, bytesDown: 0 })
  close('forward', 'GET', 200, 'allow')
  close('forward', 'GET', 200, 'would_deny')
  close('connect', 'CONNECT', 403, 'deny')
  close('invalid', 'FOO', 501, 'deny')
  const before = metrics.totals
  t.same(before, { requests: 4, denied: 2, wouldDeny: 0, failed: 0, bytesUp: 4, bytesDown: 8 })
  metrics.close(TUNNEL, { ...OUTCOME, handler: 'tunnel', bytesUp: 9 }, 1, { decision: 'allow' })
  close('forward', 'GET', 101, 'allow')
  t.same(metrics.totals, before, 'tunnels')
})
