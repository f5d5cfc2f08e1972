import t from 'tap'
import { parse } from 'yaml'
import { defaultFile } from './default-file.js'
import type { SchemaNode } from './schema-node.js'

const map = (properties: Record<string, SchemaNode>, required: string[] = []): SchemaNode => ({
  type: 'object',
  properties,
  required,
})
const lines = (schema: SchemaNode) => defaultFile(schema).replace(/^(#.*\n)+\n/, '')

t.test('a key has its default, and what is said of it behind it or above', async t => {
  const long =
    'Says a little more, so that it does not fit behind the key: a line has a hundred and twenty columns.'
  t.equal(
    lines(
      map({ wait: { default: '3s', description: 'A wait.' }, ports: { default: [1], description: long } }),
    ),
    `wait: 3s                          # A wait.\n\n# ${long}\nports: [1]\n`,
  )
})

t.test(
  'a key without a default is commented out, and so is a map without one, with what is in it',
  async t => {
    const parent = {
      ...map({ url: { examples: ['http://a'] }, ca: { examples: ['a.crt'] }, list: { default: [] } }, [
        'url',
      ]),
      description: 'Another proxy.',
    }
    t.equal(
      lines(map({ via: { examples: ['a'] }, parent })),
      [
        '# via: a\n',
        '# parent:                         # Another proxy.',
        '#   url: "http://a"',
        '#   # ca: a.crt',
        '#   list: []\n',
      ].join('\n'),
    )
  },
)

t.test('entries of a list show every key, or those of the examples', async t => {
  const items = map({ name: { examples: ['b'] }, more: { examples: [1] } }, ['name'])
  const schema = map({
    shown: { default: [{ name: 'a' }], type: 'array', items },
    hidden: { default: [], type: 'array', items, examples: [[{ name: 'c' }, { name: 'd', more: 2 }]] },
  })
  t.equal(
    lines(schema),
    [
      'shown:\n  - name: a\n    # more: 1\n',
      'hidden: []\n#   - name: c\n#   - name: d\n#     more: 2\n',
    ].join('\n'),
  )
  t.same(parse(lines(schema)), { shown: [{ name: 'a' }], hidden: [] })
})

t.test('a key that nothing can be written of is a mistake of the schema', async t => {
  t.throws(() => defaultFile(map({ via: {} })), /via has neither a default nor an example/)
})
