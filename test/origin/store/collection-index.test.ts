import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { CollectionIndex } from '../../../src/origin/store/collection-index.js'
import { digestOf, Layout } from '../../../src/origin/store/layout.js'
import { Owner } from '../../../src/origin/store/owner.js'
import { SmallestNames } from '../../../src/origin/store/smallest-names.js'
import { TemporaryFiles } from '../../../src/origin/store/temporary-files.js'
import { allNames } from './all-names.js'

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
  'a path is added to every collection above it, and a collection is removed with its last name',
  async t => {
    const { index, layout } = await world(t.testdir())
    await index.add('/a/b/c')
    await index.add('/a/b/c')
    await index.add('/a/d')
    t.same(await allNames(index, '/'), ['a/'])
    t.same(await allNames(index, '/a/'), ['b/', 'd'])
    t.same(await allNames(index, '/a/b/'), ['c'])
    t.same(await allNames(index, '/a/b/c/'), [])
    await index.remove('/a/b/c')
    t.same(await allNames(index, '/a/'), ['d'])
    t.notOk(existsSync(layout.collectionFolder('/a/b/')))
    await index.remove('/a/b/c')
    await index.remove('/a/d')
    t.same(await allNames(index, '/'), [])
    t.notOk(existsSync(layout.collectionFolder('/')))
  },
)

t.test('a resource and a collection with the same name are two entries', async t => {
  const { index } = await world(t.testdir())
  await index.add('/a')
  await index.add('/a/b')
  await index.add('/A')
  t.same(await allNames(index, '/'), ['A', 'a', 'a/'])
  await index.remove('/a')
  t.same(await allNames(index, '/'), ['A', 'a/'])
  await index.remove('/a/b')
  t.same(await allNames(index, '/'), ['A'])
})

t.test('names of any length are distinguished', async t => {
  const { index, layout } = await world(t.testdir())
  const names = [99, 100, 101, 8000].flatMap(length => ['x', 'y'].map(end => 'n'.repeat(length - 1) + end))
  for (const name of names) await index.add(`/${name}`)
  await index.add(`/${names[7]}`)
  t.same(await allNames(index, '/'), [...names].sort())
  for (const entry of readdirSync(layout.collectionFolder('/'))) t.ok(entry.length <= 255, entry)
  for (const name of names) await index.remove(`/${name}`)
  t.same(await allNames(index, '/'), [])
})

t.test('files that are not entries are ignored', async t => {
  const { index, layout } = await world(t.testdir())
  await index.add('/c/a')
  const folder = layout.collectionFolder('/c/')
  writeFileSync(join(folder, 'not an entry'), '')
  writeFileSync(join(folder, '6'), '')
  writeFileSync(join(folder, `${Buffer.from('long').toString('hex')}~${digestOf('x')}`), 'torn')
  t.same(await allNames(index, '/c/'), ['a'])
})

t.test('a name that is added while its collection becomes empty can be found from the root', async t => {
  const folder = t.testdir()
  const [one, two] = [await world(folder), await world(folder)]
  for (let round = 0; round < 50; round++) {
    await one.index.add('/a/b/old')
    await Promise.all([one.index.remove('/a/b/old'), two.index.add('/a/b/new')])
    t.same(await allNames(two.index, '/'), ['a/'])
    t.same(await allNames(two.index, '/a/'), ['b/'])
    t.same(await allNames(two.index, '/a/b/'), ['new'])
    await two.index.remove('/a/b/new')
  }
})

t.test(
  'a pass decodes only wanted names, in many turns of the event loop, and ends when no request waits',
  async t => {
    const { index, layout } = await world(t.testdir())
    const folder = layout.collectionFolder('/c/')
    mkdirSync(folder, { recursive: true })
    const names = Array.from(
      { length: 1100 },
      (_, i) => `k${((i * 7919) % 1100).toString().padStart(5, '0')}`,
    )
    for (const name of names) writeFileSync(join(folder, Buffer.from(name).toString('hex')), '')
    let taken = 0
    class Counting extends SmallestNames {
      override add(name: string): void {
        taken++
        super.add(name)
      }
    }
    const [first, behind] = [new Counting('', 5, 1000), new Counting('k00500', 5, 1000)]
    let loopTurns = 0
    let scanning = true
    const count = (): void => {
      loopTurns++
      if (scanning) setImmediate(count)
    }
    setImmediate(count)
    await index.scan('/c/', [first, behind])
    scanning = false
    t.same(first.selected(), { names: ['k00000', 'k00001', 'k00002', 'k00003', 'k00004'], more: true })
    t.same(behind.selected(), { names: ['k00501', 'k00502', 'k00503', 'k00504', 'k00505'], more: true })
    t.ok(taken < 300, `${taken} names were decoded`)
    t.ok(loopTurns >= 1, `${loopTurns} turns`)

    const all = new SmallestNames('', 1100, Number.POSITIVE_INFINITY)
    let asked = 0
    await index.scan('/c/', [all], () => ++asked < 1)
    t.ok(all.selected().names.length < 1100)
    const members: string[] = []
    for await (const name of index.members('/c/')) {
      members.push(name)
      if (members.length === 3) break
    }
    t.match(members, [/^k\d{5}$/, /^k\d{5}$/, /^k\d{5}$/])
  },
)

t.test('the files of long names that cannot be wanted are not read', async t => {
  const { index, layout } = await world(t.testdir())
  const name = (start: string, end = ''): string => `${start.padEnd(100, 'x')}${end}y`
  for (const path of [name('a'), name('b', '1'), name('b', '2'), name('c')]) await index.add(`/${path}`)
  const selection = new SmallestNames(name('b', '1'), 1, 1000)
  // Reading that name is an error.
  const unread = readdirSync(layout.collectionFolder('/')).find(entry => entry.startsWith('61'))
  rmSync(join(layout.collectionFolder('/'), unread ?? ''))
  mkdirSync(join(layout.collectionFolder('/'), unread ?? ''))
  await index.scan('/', [selection])
  t.same(selection.selected(), { names: [name('b', '2')], more: true })
})

t.test('a collection that is filled again while its name is removed keeps its name', async t => {
  const directory = t.testdir()
  const { index, layout } = await world(directory)
  const other = await world(directory)
  await index.add('/a/b/old')
  const [above, inner] = ['/a/', '/a/b/'].map(path => layout.collectionFolder(path))
  // Between the removal of the folder and that of its name another writer enters something: at the moment when the
  // folder above is named for the second time.
  let asked = 0
  const waiting = Object.assign(Object.create(layout) as Layout, {
    collectionFolder: (path: string): string => {
      if (path === '/a/' && asked++ === 0) {
        mkdirSync(inner ?? '')
        writeFileSync(join(inner ?? '', Buffer.from('new').toString('hex')), '')
      }
      return layout.collectionFolder(path)
    },
  })
  const remover = new CollectionIndex(waiting, {} as TemporaryFiles)
  await remover.remove('/a/b/old')
  t.ok(existsSync(join(above ?? '', Buffer.from('b/').toString('hex'))))
  t.same(await allNames(other.index, '/a/'), ['b/'])
  t.same(await allNames(other.index, '/a/b/'), ['new'])
  t.same(await allNames(other.index, '/'), ['a/'])
})
