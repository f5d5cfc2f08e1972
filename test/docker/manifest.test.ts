import t from 'tap'
import { faultsOf, parseManifests } from './manifest.js'

const service = (spec: object) => ({ apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec })

t.test('a manifest with labels, lists and maps is accepted by the API', async t => {
  const manifest = service({ selector: { 'any.name/at-all': 'b' }, ports: [{ port: 1 }, { port: 2 }] })
  t.same(await faultsOf(manifest), [])
})

t.test('finds a misspelt key, a value of the wrong type, and an unknown kind', async t => {
  t.same(await faultsOf(service({ ports: [{ port: 1 }, { port: 2, targetport: 3 }] })), [
    '/spec/ports/1/targetport is not known',
  ])
  t.match(await faultsOf(service({ ports: [{ port: '1' }] })), [/spec\/ports\/0\/port must be integer/])
  t.same(await faultsOf({ ...service({}), kind: 'Serwice' }), ['v1 has no Serwice'])
})

t.test('reads several documents, and refuses one with a key twice', async t => {
  t.match(parseManifests('# a comment\n---\nkind: A\n---\nkind: B\n'), [{ kind: 'A' }, { kind: 'B' }])
  t.throws(() => parseManifests('kind: A\nkind: B\n'), /unique/)
})
