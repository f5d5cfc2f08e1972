import t from 'tap'
import { PROXY_ERRORS } from '../../src/errors.js'
import { METHOD_NAMES } from '../../src/http/method.js'
import { DECISIONS, EXCHANGE_KINDS } from '../../src/pipeline/exchange-observer.js'
import { RELOAD_RESULTS } from '../../src/observe/metrics.js'
import { DENIED_REASONS, DIAL_ERRORS, LIMIT_REASONS } from '../../src/observe/refusal-reasons.js'
import { REASONS } from '../../src/observe/reasons.js'
import { readSourceFiles } from '../architecture/source-files.js'
import { readSection } from '../kit/readmes.js'

/** Of errors that come after the decision, when nothing is denied any more. */
const AFTER_DECISION = new Set(['loop', 'parent_credentials', 'body_idle'])

/** `reason: 'word'`, which a reason phrase never is, and the third argument of malformed. */
const REASON = /\breason: '([a-z]\w*)'|malformed\([^\n]*, \d{3}, '(\w+)'\)/g

const words = (text: string) => [...text.matchAll(REASON)].map(([, first, second]) => first ?? second ?? '')

t.test('every reason for which a request is denied in the sources stands in the list', async t => {
  const known: readonly string[] = DENIED_REASONS
  let found = 0
  for (const [file, text] of readSourceFiles('src')) {
    // The store is asked once the decision is made.
    if (file.startsWith('origin/store/') || file.startsWith('cli/') || file.startsWith('config/')) continue
    // Of tunnels that end.
    if (file === 'limits/shares.ts') continue
    for (const word of words(text)) {
      found += 1
      t.ok(known.includes(word) || AFTER_DECISION.has(word), `${file}: ${word}`)
    }
  }
  t.ok(found > 15, 'they are found')
  t.same(words(`reason: 'a'\n malformed(\`b c\`, 408, 'd')`), ['a', 'd'])
})

t.test('no value stands twice, and errors are types of RFC 9209', async t => {
  for (const list of [DENIED_REASONS, LIMIT_REASONS, DIAL_ERRORS])
    t.equal(new Set<string>(list).size, list.length)
  for (const type of DIAL_ERRORS) t.ok(Object.hasOwn(PROXY_ERRORS, type), type)
})

t.test('the README lists every value of every label', async t => {
  const section = readSection('src/observe/README.md', 'Metrics')
  const row = (label: string): string[] => {
    const line = section.split('\n').find(text => text.startsWith(`| ${label} |`)) ?? ''
    return [...line.slice(label.length + 4).matchAll(/`([A-Za-z_]+)`/g)].map(([, word]) => word ?? '')
  }
  t.same(row('`reason`'), [...DENIED_REASONS])
  t.same(row('`error`'), [...DIAL_ERRORS])
  t.same(row('`method`').sort(), [...METHOD_NAMES, 'other'].sort())
  t.same(row('`direction`'), ['up', 'down'])
  t.same(row('`result`'), [...RELOAD_RESULTS])
  for (const limit of LIMIT_REASONS) t.ok(row('`limit`').includes(limit), limit)
  for (const kind of EXCHANGE_KINDS) t.ok(row('`kind`').includes(kind), kind)
  for (const decision of DECISIONS) t.ok(row('`decision`').includes(decision), decision)
})

/** Other words that a reason has where it is made: `credentials_${fault}`, and those that stand behind a condition. */
const REASON_ELSEWHERE =
  /'(store_busy(?:_client)?|parent_(?:failed|refused)|store_write|store_cross_site|store_host)'/g

t.test('each reason that the log may have is explained', async t => {
  for (const reason of [...DENIED_REASONS, ...LIMIT_REASONS]) t.ok(REASONS.has(reason), reason)
  let found = 0
  for (const [file, text] of readSourceFiles('src')) {
    if (file.startsWith('cli/') || file.startsWith('config/') || file === 'limits/shares.ts') continue
    const elsewhere = [...text.matchAll(REASON_ELSEWHERE)].map(([, word]) => word ?? '')
    for (const word of [...words(text), ...elsewhere]) {
      found += 1
      t.ok(REASONS.has(word), `${file}: ${word}`)
    }
  }
  t.ok(found > 40, 'they are found')
  // An error without a reason of its own has its type for one.
  const always: readonly string[] = ['connection_write_timeout']
  for (const [type, { side }] of Object.entries(PROXY_ERRORS)) {
    if (side === 'upstream' && !always.includes(type)) t.ok(REASONS.has(type), type)
  }
})

t.test('the README explains each reason as the program does', async t => {
  const section = readSection('src/observe/README.md', 'Reasons')
  t.same(
    section.split('\n').filter(line => line.startsWith('| `') && !line.startsWith('| `reason`')),
    [...REASONS].map(([name, { means, keys = '—' }]) => `| \`${name}\` | ${means} | ${keys} |`),
  )
})
