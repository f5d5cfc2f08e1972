/** The dashboard shows every existing metric and no other, and can be imported anywhere. */
import t from 'tap'
import { readProjectFile } from './manifest.js'
import { labelsOf, SLUICE_METRICS } from './metric-names.js'
import { readQuery } from './promql.js'

interface Target {
  readonly refId: string
  readonly datasource: object
  readonly expr: string
  readonly legendFormat: string
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly datasource?: object
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets?: readonly Target[]
}

interface Variable {
  readonly name: string
  readonly type: string
  readonly datasource?: object
  readonly query: string | { readonly query: string }
}

/** How panels refer to the variable for the data source. */
const DATASOURCE = ['$', '{datasource}'].join('')

const text = readProjectFile('docker/grafana-dashboard.json')
const dashboard = JSON.parse(text) as {
  readonly id: null
  readonly time: { readonly from: string; readonly to: string }
  readonly templating: { readonly list: readonly Variable[] }
  readonly panels: readonly Panel[]
}
const panels = dashboard.panels.filter(panel => panel.type !== 'row')
const targets = panels.flatMap(panel => (panel.targets ?? []).map(target => ({ panel, ...target })))

t.test('every query is valid, and its legend uses labels that it has', async t => {
  t.ok(targets.length > 20)
  for (const { panel, expr, legendFormat } of targets) {
    const { labels } = readQuery(expr)
    t.match(expr, /\{job="\$job", instance=~"\$instance"/, panel.title)
    for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
      t.ok(labels.includes(label), `${panel.title}: ${label}`)
    }
  }
})

t.test('every metric of Sluice is shown', async t => {
  const shown = new Set(targets.flatMap(({ expr }) => readQuery(expr).metrics))
  for (const name of Object.keys(SLUICE_METRICS)) {
    t.ok(shown.has(name) || shown.has(`${name}_bucket`), name)
  }
})

t.test('panels have unique ids and positions, and a description', async t => {
  const ids = dashboard.panels.map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
  const taken = new Set<string>()
  for (const { title, gridPos } of dashboard.panels) {
    t.ok(gridPos.x + gridPos.w <= 24, title)
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        if (taken.has(`${x} ${y}`)) t.fail(`${title} overlaps another panel`)
        taken.add(`${x} ${y}`)
      }
    }
  }
  t.equal(new Set(panels.map(({ title }) => title)).size, panels.length)
})

t.test('the data source, the job and the replicas are variables', async t => {
  const source = { type: 'prometheus', uid: DATASOURCE }
  for (const owner of [...panels, ...targets]) t.same(owner.datasource, source)
  const [datasource, ...queries] = dashboard.templating.list
  t.match(datasource, { name: 'datasource', type: 'datasource', query: 'prometheus' })
  t.same(
    queries.map(({ name }) => name),
    ['job', 'instance'],
  )
  for (const variable of queries) {
    t.same(variable.datasource, source)
    const { query } = variable.query as { query: string }
    const [, selector = '', label = ''] = /^label_values\((.+), (\w+)\)$/.exec(query) ?? []
    const [metric = ''] = readQuery(selector).metrics
    t.ok(labelsOf(metric)?.includes(label), query)
  }
})

t.test('it contains nothing that is specific to an installation or a time', async t => {
  t.equal(dashboard.id, null)
  t.same(dashboard.time, { from: 'now-6h', to: 'now' })
  for (const [, uid = ''] of text.matchAll(/"uid": "([^"]*)"/g)) {
    t.ok(uid === DATASOURCE || uid === 'sluice', uid)
  }
  t.notMatch(text, /https?:\/\/|\d{4}-\d\d-\d\d|\d{10}/)
})
