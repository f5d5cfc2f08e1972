import t from 'tap'
import { readQuery } from './promql.js'

t.test('parses queries like those of the dashboard and the alerts', async t => {
  t.same(readQuery('sum by (reason) (rate(sluice_denied_total{job="$job"}[$__rate_interval]))'), {
    metrics: ['sluice_denied_total'],
    labels: ['reason'],
  })
  t.same(readQuery('sluice_upstream_up == 0').labels, ['route', 'upstream', 'job', 'instance'])
  t.same(readQuery('up{job="a", instance=~"b"} * 0.5 and on (job) sluice_build_info offset 1h').metrics, [
    'up',
    'sluice_build_info',
  ])
  t.same(readQuery('histogram_quantile(0.5, sum by (le) (rate(sluice_dns_seconds_bucket[5m])))').metrics, [
    'sluice_dns_seconds_bucket',
  ])
})

t.test('refuses unknown names and values', async t => {
  t.throws(() => readQuery('sluice_denied'), /no metric sluice_denied$/)
  t.throws(() => readQuery('sluice_dns_seconds'), /no metric/, 'a histogram exists only by its parts')
  t.throws(() => readQuery('sluice_tunnels_active_sum'), /no metric/)
  t.throws(() => readQuery('sum by (host) (sluice_denied_total)'), /label host/)
  t.throws(() => readQuery('sum by (le) (rate(sluice_dns_seconds_sum[5m]))'), /label le/)
  t.throws(() => readQuery('up and on (reason) sluice_build_info'), /label reason/)
  t.throws(() => readQuery('sluice_denied_total{code="200"}'), /no label code/)
  t.throws(() => readQuery('sluice_bytes_total{direction="in"}'), /never "in"/)
  t.throws(() => readQuery('sluice_bytes_total{direction=~"up|in"}'), /never "up\|in"/)
  t.throws(() => readQuery('sluice_bytes_total{direction="up|down"}'), /never "up\|down"/)
  t.throws(() => readQuery('irate(up[5m])'), /no metric irate/)
})

t.test('refuses text that is not a query', async t => {
  for (const text of [
    'sum(up',
    'up)',
    '{job="a"}',
    'rate up',
    'rate(up[5])',
    'up{job="a"',
    'up{job "a"}',
    'up{job="a" instance="b"}',
    'up{job=a}',
    'up # all',
    '5x',
  ]) {
    t.throws(() => readQuery(text), SyntaxError, text)
  }
})
