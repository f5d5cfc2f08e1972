import t from 'tap'
import { type Located, readYaml } from '../../src/config/yaml-tree.js'

function rootOf(text: string): Located {
  const { root, faults } = readYaml(text)
  if (root === undefined || faults.length > 0) throw new Error(JSON.stringify(faults))
  return root
}

const plain = (text: string) => JSON.parse(JSON.stringify(rootOf(text).value))

/** Faults as `offset path: message`. */
function faults(text: string): string[] {
  return readYaml(text).faults.map(({ offset, path, message }) => `${offset} ${path.join('.')}: ${message}`)
}

t.test('reads YAML 1.2: yes, on and octal-looking digits are not what 1.1 made of them', t => {
  const text = 'a: yes\nb: on\nc: 010\nd: true\ne: 0x10\nf: null\ng: ~\nh:\ni: 1:30\n443: 1\n'
  t.same(plain(text), {
    a: 'yes',
    b: 'on',
    c: 10,
    d: true,
    e: 16,
    f: null,
    g: null,
    h: null,
    i: '1:30',
    443: 1,
  })
  t.same(plain('%YAML 1.1\n---\na: yes\n'), { a: 'yes' })
  t.end()
})

t.test('keeps the offsets of keys and values, the key standing in for a value not written', t => {
  const root = rootOf('ab:\n  - x: 1\n  -\ncd:\n')
  const ab = root.children.get('ab')
  t.match(ab, { key: 0, start: 6 })
  t.match(ab?.children.get(0)?.children.get('x'), { key: 8, start: 11, value: 1 })
  t.match(root.children.get('cd'), { key: 17, start: 17, value: null })
  t.end()
})

t.test('a file without content is empty, whatever it is empty of', t => {
  const message = '0 : the file is empty; a configuration begins with `version: 1`'
  for (const text of ['', '\n', '# only a comment\n', '---\n', '---\n...\n', '\ufeff']) {
    t.same(faults(text), [message], JSON.stringify(text))
  }
  t.end()
})

t.test('says where the text stops being YAML, and nothing more about it', t => {
  for (const [text, expected] of [
    ['\ta: 1\n', '0 : not valid YAML: tabs are not allowed as indentation'],
    ['a: b: c\n', '3 : not valid YAML: nested mappings are not allowed in compact mappings'],
    ['a: "x\n', '6 : not valid YAML: missing closing "quote'],
    ['a: 1\n? [b]\n: 2\n', '7 : not valid YAML: a key is text, not a list or a map'],
    ['a: !env HOME\n', '3 : not valid YAML: unresolved tag: !env'],
    ['a: !!binary xx\n', '3 : not valid YAML: unresolved tag: tag:yaml.org,2002:binary'],
    ['a: 1\n---\nb: 2\n', '5 : a second document begins here; a configuration is one document'],
  ] as const) {
    t.same(faults(text), [expected], text)
    t.equal(readYaml(text).root, undefined)
  }
  t.end()
})

t.test('tells about quotes where a bare * became an alias', t => {
  const hint = 'a value that begins with * goes in quotes, as in "*.example.com"'
  t.same(faults('a: [*]\n'), [`4 : not valid YAML: alias cannot be an empty string; ${hint}`])
  t.same(faults('a: [*.x.com]\n'), [`4 a.0: nothing above is anchored as &.x.com; ${hint}`])
  t.same(faults('a: *b\nc: &b 1\n'), [`3 a: nothing above is anchored as &b; ${hint}`])
  t.same(
    faults('a: &a [*a]\n'),
    [`7 a.0: nothing above is anchored as &a; ${hint}`],
    'nor may it hold itself',
  )
  t.end()
})

t.test('an alias stands for its anchor, at the place of the alias', t => {
  const root = rootOf('a: &x [1, 2]\nb: *x\n')
  t.same(root.children.get('b')?.value, [1, 2])
  t.match(root.children.get('b'), { key: 13, start: 16 })
  t.end()
})

t.test('aliases do not multiply without bound', t => {
  const lines = ['a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]']
  for (const [above, below] of ['ab', 'bc', 'cd', 'de', 'ef', 'fg'].map(pair => pair.split(''))) {
    lines.push(`${below}: &${below} [${Array(10).fill(`*${above}`).join(', ')}]`)
  }
  const [first] = readYaml(lines.join('\n')).faults
  t.equal(first?.message, 'aliases stand for more than 100000 values')
  t.end()
})

t.test('a key written twice, and one that would reach a prototype, are errors', t => {
  t.same(faults('a: 1\nb: {c: 1, c: 2}\na: 3\n'), [
    '15 b.c: the key `c` appears a second time',
    '21 a: the key `a` appears a second time',
  ])
  t.same(faults('__proto__: {a: 1}\n'), ['0 __proto__: `__proto__` cannot be a key'])
  t.same(plain('constructor: 1\ntoString: 2\n'), { constructor: 1, toString: 2 })
  t.end()
})

t.test('deep nesting is an error and not a crash', t => {
  const flow = (depth: number) => `a: ${'['.repeat(depth)}${']'.repeat(depth)}`
  t.same(readYaml(flow(50)).faults, [])
  t.match(readYaml(flow(65)).faults, [{ message: 'nested more than 64 deep' }])
  for (const text of [flow(100_000), '- '.repeat(100_000), '{a: '.repeat(50_000), '? '.repeat(50_000)]) {
    t.match(readYaml(text).faults, [{ message: 'nested more than 64 deep' }])
  }
  t.end()
})
