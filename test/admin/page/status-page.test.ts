import { createHash } from 'node:crypto'
import t from 'tap'
import { readStatusPage } from '../../../src/admin/page/status-page.js'

const { html, contentSecurityPolicy } = readStatusPage()
const inline = (element: string) =>
  [...html.matchAll(new RegExp(`<${element}>(.*?)</${element}>`, 'gs'))].map(match => match[1] ?? '')

t.test(
  'asks for nothing else, and its policy names every script and style by its hash (CSP §2.3.1)',
  async t => {
    const directives = new Map(
      contentSecurityPolicy.split('; ').map(text => {
        const [name = '', ...sources] = text.split(' ')
        return [name, sources] as const
      }),
    )
    t.same(directives.get('default-src'), ["'none'"])
    for (const element of ['script', 'style']) {
      const texts = inline(element)
      t.equal(texts.length, 2)
      const hashes = texts.map(text => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
      t.same(directives.get(`${element}-src`), hashes)
    }
    t.notMatch(contentSecurityPolicy, /unsafe|\*|https?:/)
    t.notMatch(html, /<(?:script|link|img)[^>]* (?:src|href)="(?!data:,")/)
    t.notMatch(html, / (?:style|on[a-z]+)="/, 'no attribute that the policy would refuse')
  },
)

t.test('text is never taken for markup', async t => {
  const [, client = ''] = inline('script')
  t.notMatch(client, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc/)
  t.match(client, /textContent/)
})

t.test('every element that a script looks for by its id is there', async t => {
  const [, client = ''] = inline('script')
  const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(match => match[1]))
  const asked = [...client.matchAll(/found\('([^']+)'\)/g)].map(match => match[1])
  t.ok(asked.length > 10)
  for (const id of asked) t.ok(ids.has(id), String(id))
  t.equal(ids.size, [...html.matchAll(/ id="/g)].length, 'each once')
})
