import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { load, problemsOf, refuses } from './problems-of.js'

t.test('unix: true is a condition of its own', t => {
  t.equal(load('clients: [{ name: a, unix: true }]').clients[0]?.unix, true)
  refuses(t, [
    ['clients: [{ name: a, unix: false }]', '2:28 clients[0].unix: expected true, found false'],
    [
      'clients: [{ name: a, cidr: ["10.0.0.0/8"], unix: true }]',
      '2:44 clients[0].unix: no client meets it together with cidr: a connection over a Unix socket has none',
    ],
  ])
  t.end()
})

t.test('a parent that is a listener of the same file is refused', async t => {
  const faults = (listen: string, url: string) =>
    problemsOf(`version: 1\nlisten: ${listen}\nparent: { url: ${url} }\n`)
  const one = '{ proxy: ["127.0.0.1:3128"], admin: "127.0.0.1:9128" }'
  t.same(faults(one, '"http://127.0.0.1:3128"'), [
    '3:16 parent.url: http://127.0.0.1:3128 is this proxy itself, which listens on 127.0.0.1:3128',
  ])
  t.match(faults(one, '["http://p.test", "http://localhost:9128"]'), [/^3:34 parent\.url\[1\]: /])
  t.same(faults(one, '"http://127.0.0.1:3129"'), [])
  t.same(faults(one, '"http://127.0.0.2:3128"'), [])
  t.same(faults(one, '"http://p.test:3128"'), [], 'what a name leads to shows when it is dialled')
  const all = '{ proxy: ["0.0.0.0:3128"], admin: false }'
  t.equal(faults(all, '"http://127.9.9.9:3128"').length, 1)
  t.equal(faults(all, '"http://[::1]:3128"').length, 1)
  t.same(faults(all, '"http://192.0.2.1:3128"'), [])
})

t.test('listeners of the command line count in place of those of the file', t => {
  const text = 'version: 1\nlisten: { admin: false }\nparent: { url: "http://127.0.0.1:3128" }\n'
  const on = (port: number) =>
    parseConfig(text, undefined, undefined, undefined, undefined, {
      override: config => ({
        ...config,
        listen: { ...config.listen, proxy: [{ host: '127.0.0.1', port }] },
      }),
    })
  t.throws(() => on(3128), /parent\.url: http:\/\/127\.0\.0\.1:3128 is this proxy itself/)
  t.equal(on(3999).config.listen.proxy[0]?.port, 3999)
  t.end()
})
