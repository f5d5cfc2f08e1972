import t from 'tap'
import { parsePorts } from '../../src/net/ports.js'
import { serializeRules } from '../../src/advice/rules-yaml.js'

t.test(
  'one host stands in the line of its key, several below it, ports and methods always in it',
  async t => {
    t.equal(
      serializeRules([
        { name: 'one', hosts: ['a.test'], ports: parsePorts([443]) },
        { name: 'two', hosts: ['a.test', 'b.test'], ports: parsePorts([80, 8080]), methods: ['GET', 'HEAD'] },
        { name: 'bare', hosts: ['*'] },
      ]),
      `rules:
  one:
    hosts: [a.test]
    ports: [443]
  two:
    hosts:
      - a.test
      - b.test
    ports: [80, 8080]
    methods: [GET, HEAD]
  bare:
    hosts: ["*"]
`,
    )
  },
)

t.test('no rule is a map that is empty', async t => {
  t.equal(serializeRules([]), 'rules: {}\n')
})

t.test('a wildcard stands in a line of its own, with what to check about it', async t => {
  t.equal(
    serializeRules([{ name: 'w', hosts: ['*.a.test'] }]),
    'rules:\n  w:\n    hosts:\n      - "*.a.test" # check: every name below a.test\n',
  )
})

t.test('three ports in a row and more are a range', async t => {
  const line = (...ports: number[]) =>
    /ports: .*/.exec(serializeRules([{ name: 'r', hosts: ['a.test'], ports: parsePorts(ports) }]))?.[0]
  t.equal(line(1, 2), 'ports: [1, 2]')
  t.equal(line(1, 2, 3, 5), 'ports: [1-3, 5]')
})

t.test('long lists of hosts are not folded, and what YAML takes for something else is quoted', async t => {
  const long = `${'a'.repeat(63)}.${'b'.repeat(63)}.test`
  const text = serializeRules([
    { name: 'r', hosts: ['null', '::1', '2001:db8::1', 'true', '1e3', '0x1f', long] },
  ])
  t.equal(
    text,
    `rules:\n  r:\n    hosts:\n      - "null"\n      - ::1\n      - 2001:db8::1\n      - "true"\n      - "1e3"\n      - "0x1f"\n      - ${long}\n`,
  )
})

t.test('addresses stand in one line, and hosts may be left out of what changes a rule', async t => {
  t.equal(
    serializeRules([
      { name: 'inner', ports: parsePorts([80, '8000-8010']), addresses: ['10.0.0.1/32', 'fd00::1/128'] },
    ]),
    'rules:\n  inner:\n    ports: [80, 8000-8010]\n    addresses: [10.0.0.1/32, "fd00::1/128"]\n'.replaceAll(
      '"',
      '',
    ),
  )
})
