import t from 'tap'
import {
  type ListingSource,
  type PageRequest,
  SharedListings,
} from '../../../src/origin/store/shared-listings.js'
import { spelled, type Selected, type SmallestNames } from '../../../src/origin/store/smallest-names.js'
import { turns } from '../../kit/peers/until-stable.js'

const NAMES = ['a', 'b', 'c', 'd']

/** A source that counts its passes and pages, which end when the test says so. */
function world() {
  const passes: {
    path: string
    selections: number
    isWanted: () => boolean
    end: (error?: Error) => void
  }[] = []
  const pages: { after: string; end: () => void; signal: { readonly aborted: boolean } }[] = []
  const source: ListingSource<string> = {
    pageBytes: 1000,
    scan: (path: string, selections: readonly SmallestNames[], isWanted: () => boolean) =>
      new Promise((resolve, reject) => {
        const end = (error?: Error): void => {
          for (const selection of selections) {
            for (const name of NAMES) if (selection.wants(spelled(name))) selection.add(name)
          }
          if (error === undefined) resolve()
          else reject(error)
        }
        passes.push({ path, selections: selections.length, isWanted, end })
      }),
    page: ({ after, limit }: PageRequest, { names }: Selected, signal) =>
      new Promise(resolve => {
        pages.push({ after, signal, end: () => resolve(names.slice(0, limit).join('')) })
      }),
  }
  const shared = new SharedListings(source)
  const ask = (after: string, limit = 2, path = '/', signal = new AbortController().signal, network = 'a') =>
    shared.page({ path, after, limit }, network, signal)
  return { passes, pages, ask }
}

t.test('one pass and one page serve all requests for the same page', async t => {
  const { passes, pages, ask } = world()
  const all = Array.from({ length: 200 }, () => ask('a'))
  await turns()
  t.match(passes, [{ path: '/', selections: 1 }])
  passes[0]?.end()
  await turns()
  t.equal(pages.length, 1)
  pages[0]?.end()
  t.same(new Set(await Promise.all(all)), new Set(['bc']))
  t.equal(passes.length, 1)
})

t.test('one pass also serves different pages, up to a limit', async t => {
  const { passes, pages, ask } = world()
  const all = Array.from({ length: 40 }, (_, i) => ask('', i + 1))
  await turns()
  t.match(passes, [{ selections: 32 }])
  passes[0]?.end()
  await turns()
  t.match(passes, [{}, { selections: 8 }])
  t.equal(pages.length, 8, 'pages are made a few at a time')
  passes[1]?.end()
  for (let i = 0; i < 40; i++) {
    pages[i]?.end()
    await turns(2)
  }
  t.same((await Promise.all(all)).slice(0, 5), ['a', 'ab', 'abc', 'abcd', 'abcd'])
})

t.test('a request during a pass sees what was written before the request', async t => {
  const { passes, pages, ask } = world()
  const first = ask('')
  await turns()
  const second = ask('')
  await turns()
  t.equal(passes.length, 1, 'one pass through a collection at a time')
  passes[0]?.end()
  await turns()
  t.equal(passes.length, 2)
  passes[1]?.end()
  await turns()
  for (const page of pages) page.end()
  t.same(await Promise.all([first, second]), ['ab', 'ab'])
})

t.test('two collections are scanned at a time', async t => {
  const { passes, pages, ask } = world()
  const all = ['/', '/b/', '/c/'].map(path => ask('', 1, path))
  await turns()
  t.same(
    passes.map(({ path }) => path),
    ['/', '/b/'],
  )
  passes[1]?.end()
  await turns()
  t.equal(passes[2]?.path, '/c/')
  for (const pass of passes) pass.end()
  await turns()
  for (const page of pages) page.end()
  t.same(await Promise.all(all), ['a', 'a', 'a'])
})

t.test('clients take turns: a listing waits for only one of those that another client requests', async t => {
  const { passes, pages, ask } = world()
  const { signal } = new AbortController()
  const all = ['/', '/b/', '/c/', '/d/', '/e/'].map(path => ask('', 1, path))
  await turns()
  all.push(ask('', 1, '/other/', signal, 'b'))
  await turns()
  for (let i = 0; i < 6; i++) {
    passes[i]?.end()
    await turns()
  }
  t.same(
    passes.map(({ path }) => path),
    ['/', '/b/', '/c/', '/other/', '/d/', '/e/'],
  )
  for (const page of pages) page.end()
  t.same(await Promise.all(all), new Array(6).fill('a'))
})

t.test('work that no request waits for is abandoned', async t => {
  const { passes, pages, ask } = world()
  const [one, other, waiting] = [new AbortController(), new AbortController(), new AbortController()]
  const asked = [ask('', 1, '/', one.signal), ask('', 1, '/', other.signal)]
  await turns()
  asked.push(ask('', 1, '/', waiting.signal))
  one.abort()
  waiting.abort()
  await t.rejects(asked[0] as Promise<string>, { name: 'ClientGone' })
  await t.rejects(asked[2] as Promise<string>, { name: 'ClientGone' })
  t.equal(passes[0]?.isWanted(), true, 'the other one waits')
  other.abort()
  await t.rejects(asked[1] as Promise<string>, { name: 'ClientGone' })
  t.equal(passes[0]?.isWanted(), false)
  passes[0]?.end()
  await turns()
  t.equal(passes.length, 1)
  t.equal(pages.length, 0)
  await t.rejects(ask('', 1, '/', one.signal), { name: 'ClientGone' })
  const last = ask('b')
  await turns()
  passes.at(-1)?.end()
  await turns()
  pages[0]?.end()
  t.equal(await last, 'cd')
})

t.test('there is no pass for a client that has gone while it waited for other collections', async t => {
  const { passes, ask } = world()
  const gone = new AbortController()
  const held = ['/', '/b/'].map(path => ask('', 1, path))
  const left = ask('', 1, '/c/', gone.signal)
  await turns()
  gone.abort()
  await t.rejects(left, { name: 'ClientGone' })
  const again = ask('', 2, '/c/')
  await turns()
  for (const pass of passes.splice(0)) pass.end(new Error('no disk'))
  for (const page of held) await t.rejects(page, { message: 'no disk' })
  await turns()
  t.match(passes, [{ path: '/c/', selections: 1 }])
  passes[0]?.end(new Error('no disk'))
  await t.rejects(again, { message: 'no disk' })
})

t.test('a page that no request waits for is aborted', async t => {
  const { passes, pages, ask } = world()
  const gone = new AbortController()
  const left = ask('', 1, '/', gone.signal)
  await turns()
  passes[0]?.end()
  await turns()
  t.equal(pages[0]?.signal.aborted, false)
  gone.abort()
  await t.rejects(left, { name: 'ClientGone' })
  t.equal(pages[0]?.signal.aborted, true)
  pages[0]?.end()
})
