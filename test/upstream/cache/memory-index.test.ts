import fc from 'fast-check'
import t from 'tap'
import { MemoryIndex } from '../../../src/upstream/cache/memory-index.js'
import { runs } from '../../kit/runs.js'

const itemOf = (uri: string, partition: string, serial: number) => ({ uri, partition, serial })
type Item = ReturnType<typeof itemOf>

const isEqual = (a: readonly Item[], b: readonly Item[] = []) =>
  a.length === b.length && a.every((item, at) => item === b[at])

t.test('agrees with a Map of joined keys, and lists no URI that has nothing', async () => {
  const step = fc.record({
    uri: fc.constantFrom('', 'a', 'b', 'http://a.test:80/x', 'http://a.test:80/y', 'x'.repeat(9000)),
    partition: fc.constantFrom('', 'p', 'q'),
    count: fc.nat(3),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40, size: 'max' }), steps => {
      const index = new MemoryIndex<Item>()
      const model = new Map<string, readonly Item[]>()
      let serial = 0
      for (const { uri, partition, count } of steps) {
        const items = Array.from({ length: count }, () => itemOf(uri, partition, serial++))
        index.set({ uri, partition }, items)
        if (count > 0) model.set(`${partition} ${uri}`, items)
        else model.delete(`${partition} ${uri}`)
        const ofUri = [...model.values()].flat().filter(item => item.uri === uri)
        if (index.get({ uri, partition }).length !== count) return false
        if (index.ofUri(uri).length !== ofUri.length) return false
        if (!ofUri.every(item => isEqual(index.get(item), model.get(`${item.partition} ${uri}`))))
          return false
        const uris = new Set([...model.values()].map(([item]) => item?.uri))
        const listed = [...index.uris()]
        if (listed.length !== uris.size || !listed.every(each => uris.has(each))) return false
      }
      return true
    }),
    { numRuns: runs(500) },
  )
})

t.test('what is there throughout is listed once while others come and go', async t => {
  const index = new MemoryIndex<Item>()
  const stay = Array.from({ length: 1000 }, (_, at) => itemOf(`stay ${at}`, '', at))
  for (const item of stay) index.set(item, [item])
  const seen: string[] = []
  for (const uri of index.uris()) {
    if (uri.startsWith('stay')) seen.push(uri)
    if (seen.length > 1000) break
    const passing = itemOf(`passing ${seen.length}`, '', 0)
    index.set(passing, seen.length % 2 === 0 ? [passing] : [])
  }
  t.same(seen.sort(), stay.map(({ uri }) => uri).sort())
})
