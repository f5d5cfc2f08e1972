import t from 'tap'
import { parse } from 'yaml'
import { parseDuration } from '../../src/config/quantities.js'
import { readProjectFile } from './manifest.js'
import { readQuery } from './promql.js'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

const { groups } = parse(readProjectFile('docker/prometheus-alerts.yaml')) as {
  groups: { name: string; rules: Rule[] }[]
}
const rules = groups.flatMap(group => group.rules)

t.test('every alert is a query for existing metrics, and describes what it means', async t => {
  t.ok(rules.length >= 5)
  t.equal(new Set(rules.map(rule => rule.alert)).size, rules.length)
  for (const { alert, expr, for: pending, labels, annotations, ...others } of rules) {
    t.same(others, {}, alert)
    t.match(alert, /^Sluice[A-Za-z]+$/)
    const { labels: known } = readQuery(expr)
    t.match(expr, /(?:==|[<>]) [\d.]/, `${alert} compares with something`)
    if (pending !== undefined) t.ok(parseDuration(pending) > 0, alert)
    t.match(labels, { severity: /^(?:critical|warning)$/ })
    t.same(Object.keys(annotations), ['summary'])
    const { summary = '' } = annotations
    for (const [, label = ''] of summary.matchAll(/\$labels\.(\w+)/g)) {
      t.ok(known.includes(label), `${alert}: ${label}`)
    }
    t.notMatch(summary.replaceAll(/\{\{ \$(?:labels\.\w+|value(?: \| humanize\w*)?) \}\}/g, ''), /[{}]/)
  }
})
