import t from 'tap'
import { changedKeys } from '../../src/run/changed-keys.js'
import { parseConfig } from '../../src/config/load.js'

const config = (yaml: string) => parseConfig(`version: 1\n${yaml}`).config

t.test('names the keys at the top whose meaning is another one', async t => {
  const text = `
mode: observe
clients: [{ name: a, cidr: ["10.0.0.0/8"], rules: [web] }]
rules: { web: { hosts: ["*.a.test", "10.1.2.3"], ports: ["8000-8100"], methods: [GET] } }
deny: { hosts: [b.test], addresses: ["1.2.3.0/24"] }
origins: [{ host: o.test, path: /x, forward: "http://10.0.0.5:80" }]
error_note: Ask.
`
  const before = config(text)
  t.same(changedKeys(before, config(text)), [], 'the same text is the same, whatever it is parsed to')
  t.same(changedKeys(before, config(text.replace('observe', 'enforce'))), ['mode'])
  t.same(changedKeys(before, config(text.replace('*.a.test', '*.c.test'))), ['rules'])
  t.same(changedKeys(before, config(text.replace('8100', '8101').replace('b.test', 'c.test'))), [
    'rules',
    'deny',
  ])
  t.same(changedKeys(before, config(text.replace('/x', '/y'))), ['origins'])
})

t.test('keys that come and go are changed ones, named as in the file', async t => {
  t.same(changedKeys(config(''), config('error_note: Ask.\n')), ['error_note'])
  t.same(changedKeys(config('error_note: Ask.\nvia: a\n'), config('')).sort(), ['error_note', 'via'])
  t.same(changedKeys(config(''), config('mode: enforce\n')), [], 'the default, written out')
})
