/** Every statement of the method specification has a test, and the named tests exist. */
import t from 'tap'
import { readSourceFiles } from '../architecture/source-files.js'
import { faultsOf } from './statements-check.js'
import { SECTION_COUNTS, STATEMENTS } from './statements-table.js'

t.test(
  'each statement of the method specification is shown by a test, on the wire where it is about bytes',
  async t => {
    const sources = new Map([...sourcesOf('test/wire', ''), ...sourcesOf('test/cache', 'cache/')])
    t.same(faultsOf(STATEMENTS, SECTION_COUNTS, sources), [])
  },
)

function sourcesOf(folder: string, prefix: string): [string, string][] {
  return [...readSourceFiles(folder)].map(([file, text]) => [
    `${prefix}${file.replace(/\.test\.ts$/, '')}`,
    text,
  ])
}

const IMPORT = "import { threeWays } from '../kit/proxies/setups.js'\n"
// biome-ignore lint/suspicious/noTemplateCurlyInString: source of a template
const LOOP = 't.test(`1 by ${way}`, async t => { for (;;) checkIt(t) })\n'
const SOURCES = new Map([
  [
    'a',
    IMPORT +
      "t.test('1 one', async t => { t.equal(1, 1) })\n" +
      "t.test('1, 4.2 two', async t => { const { x } = y; if (x) { t.match(x, 1) } })\n" +
      "t.test('1 empty', async () => {})\n" +
      "t.test('1 comment', async t => { /* t.equal(1, 1) */ })\n" +
      "t.test('1 left out', { skip: true }, async t => { t.equal(1, 1) })\n" +
      "t.test('1 twice', async t => { t.ok(1) })\nt.test('1 twice', async t => { t.ok(1) })\n" +
      "t.test('another (RFC 9110 §9.2.2)', async t => { t.ok(1) })\n" +
      "// t.test('1 gone', async t => { t.ok(1) })\n" +
      LOOP,
  ],
  ['cache/a', "t.test('1 one', async t => { t.equal(1, 1) })\n"],
  ['b', "t.test('1 one', async t => { t.equal(1, 1) })\n"],
])

t.test('the table is at fault when a statement is missing, doubled, or of no section', async t => {
  const counts = { '1': 2 }
  const good = 'a > 1 one'
  t.same(
    faultsOf(
      [
        ['1/1', '', good],
        ['1/2', '', good],
      ],
      counts,
      SOURCES,
    ),
    [],
  )
  t.same(faultsOf([['1/1', '', good]], counts, SOURCES), ['1/2 is missing'])
  t.same(
    faultsOf(
      [
        ['1/1', '', good],
        ['1/2', '', good],
        ['1/3', '', good],
      ],
      counts,
      SOURCES,
    ),
    ['1/3 is one too many'],
  )
  t.same(
    faultsOf(
      [
        ['1/1', '', good],
        ['1/1', '', good],
        ['1/2', '', good],
      ],
      counts,
      SOURCES,
    ),
    ['1/1 stands twice'],
  )
})

t.test('the table is at fault when a test is not what it is said to be', async t => {
  for (const [tests, says] of [
    [['a > 1 one'], undefined],
    [['a > 1, 4.2 two'], undefined],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the title as its source has it
    [['a > 1 by ${way}'], undefined],
    [['cache/a > 1 one'], undefined],
    [[], 'has no test'],
    [['cache'], 'no such file'],
    [['c > 1 one'], 'no such file'],
    [['1 one'], 'no such file'],
    [['b > 1 one'], 'opens no socket'],
    [['a > 1 on'], '0 tests are called'],
    [['a > 1 gone'], '0 tests are called'],
    [['a > 1 by forward'], '0 tests are called'],
    [['a > 1 twice'], '2 tests are called'],
    [['a > 1 empty'], 'asserts nothing'],
    [['a > 1 comment'], 'asserts nothing'],
    [['a > 1 left out'], 'may be left out'],
    [['a > another (RFC 9110 §9.2.2)'], 'names another section'],
  ] as const) {
    const faults = faultsOf([['1/1', '', ...tests]], { '1': 1 }, SOURCES)
    t.equal(faults.length, says === undefined ? 0 : 1, faults.join('; '))
    if (says !== undefined) t.match(faults[0], says)
  }
  const cited = 'a > another (RFC 9110 §9.2.2)'
  t.same(faultsOf([['4.2/1', '', cited, 'a > 1, 4.2 two']], { '4.2': 1 }, SOURCES), [])
})
