import t from 'tap'
import { type ListingPage, serializeListingHtml } from '../../../src/origin/store/listing-page.js'

const page = (names: readonly string[], path = '/', next: string | null = null): string =>
  serializeListingHtml({ path, items: names.map(name => ({ name })), next } satisfies ListingPage)

t.test('links are the encoded names, texts are decoded if they are visible', async t => {
  for (const [name, text] of [
    ['a.txt', 'a.txt'],
    ['a%20b', 'a b'],
    ['%C3%A9', '\u00e9'],
    ['%26%3C', '&amp;&lt;'],
    ['%22%27', '&quot;&#39;'],
    // Decoded, it would look like another name, or be invisible.
    ['a%2Fb', 'a%2Fb'],
    ['a%252Fb', 'a%252Fb'],
    ['%FF', '%FF'],
    ['a%0Ab', 'a%0Ab'],
    ['%E2%80%AE', '%E2%80%AE'],
    ['%EF%BB%BF', '%EF%BB%BF'],
    ['c/', 'c/'],
  ] as const) {
    t.match(page([name]), `<td><a href="${name}">${text}</a></td>`, name)
  }
})

t.test(
  'every page except the root links to its parent, and every page except the last to the next',
  async t => {
    t.notMatch(page([]), '../')
    t.notMatch(page([]), 'more')
    const html = page(['x'], '/a%3Cb/', '/a%3Cb/?limit=1&after=x')
    t.match(html, '<p><a href="../">../</a></p>')
    t.match(html, '<title>/a&lt;b/</title>')
    t.match(html, '<p><a href="/a%3Cb/?limit=1&amp;after=x">more</a></p>')
  },
)

t.test('a resource has its size, its type and its time, escaped', async t => {
  const item = { name: 'a', size: 7, type: '<b>', etag: '"x"', modified: '2026-03-01T12:00:00.250Z' }
  t.match(
    serializeListingHtml({ path: '/', items: [item, { ...item, name: 'b', type: null }], next: null }),
    '<td>7</td><td>&lt;b&gt;</td><td>2026-03-01T12:00:00.250Z</td></tr>\n' +
      '<tr><td><a href="b">b</a></td><td>7</td><td></td>',
  )
})
