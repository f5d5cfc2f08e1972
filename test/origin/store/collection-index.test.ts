import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { CollectionIndex } from '../../../src/origin/store/collection-index.js'
import { digestOf, Layout } from '../../../src/origin/store/layout.js'
import { Owner } from '../../../src/origin/store/owner.js'
import { TemporaryFiles } from '../../../src/origin/store/temporary-files.js'

async function world(directory: string): Promise<{ index: CollectionIndex; layout: Layout }> {
  let count = 0
  const layout = new Layout(directory)
  const temporary = new TemporaryFiles(
    layout.temporary,
    await Owner.ofThisProcess('a'),
    () => `${directory.length}-${++count}`,
    NO_DESCRIPTOR_KEPT,
  )
  return { layout, index: new CollectionIndex(layout, temporary) }
}

t.test(
  'a path is entered in every collection above it, and leaves those that it was the last of',
  async t => {
    const { index, layout } = await world(t.testdir())
    await index.add('/a/b/c')
    await index.add('/a/b/c')
    await index.add('/a/d')
    t.same(await index.names('/'), ['a/'])
    t.same(await index.names('/a/'), ['b/', 'd'])
    t.same(await index.names('/a/b/'), ['c'])
    t.same(await index.names('/a/b/c/'), [])
    await index.remove('/a/b/c')
    t.same(await index.names('/a/'), ['d'])
    t.notOk(existsSync(layout.collectionFolder('/a/b/')))
    await index.remove('/a/b/c')
    await index.remove('/a/d')
    t.same(await index.names('/'), [])
    t.notOk(existsSync(layout.collectionFolder('/')))
  },
)

t.test('a resource and the collection of its name are two entries', async t => {
  const { index } = await world(t.testdir())
  await index.add('/a')
  await index.add('/a/b')
  await index.add('/A')
  t.same(await index.names('/'), ['A', 'a', 'a/'])
  await index.remove('/a')
  t.same(await index.names('/'), ['A', 'a/'])
  await index.remove('/a/b')
  t.same(await index.names('/'), ['A'])
})

t.test('names of any length are told apart', async t => {
  const { index, layout } = await world(t.testdir())
  const names = [99, 100, 101, 8000].flatMap(length => ['x', 'y'].map(end => 'n'.repeat(length - 1) + end))
  for (const name of names) await index.add(`/${name}`)
  await index.add(`/${names[7]}`)
  t.same(await index.names('/'), [...names].sort())
  for (const entry of readdirSync(layout.collectionFolder('/'))) t.ok(entry.length <= 255, entry)
  for (const name of names) await index.remove(`/${name}`)
  t.same(await index.names('/'), [])
})

t.test('files that are no entries are passed over', async t => {
  const { index, layout } = await world(t.testdir())
  await index.add('/c/a')
  const folder = layout.collectionFolder('/c/')
  writeFileSync(join(folder, 'not an entry'), '')
  writeFileSync(join(folder, '6'), '')
  writeFileSync(join(folder, `${Buffer.from('long').toString('hex')}~${digestOf('x')}`), 'torn')
  t.same(await index.names('/c/'), ['a'])
})

t.test('who adds below a collection while it empties is found from the top', async t => {
  const folder = t.testdir()
  const [one, two] = [await world(folder), await world(folder)]
  for (let round = 0; round < 50; round++) {
    await one.index.add('/a/b/old')
    await Promise.all([one.index.remove('/a/b/old'), two.index.add('/a/b/new')])
    t.same(await two.index.names('/'), ['a/'])
    t.same(await two.index.names('/a/'), ['b/'])
    t.same(await two.index.names('/a/b/'), ['new'])
    await two.index.remove('/a/b/new')
  }
})
