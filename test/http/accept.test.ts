import fc from 'fast-check'
import t from 'tap'
import { preferredMediaType } from '../../src/http/accept.js'

const JSON_FIRST = ['application/json', 'text/html'] as const

/** The type that a server which prefers JSON sends to a client with these Accept lines. */
function chosen(...values: string[]): 'json' | 'html' | undefined {
  const type = preferredMediaType(
    values.flatMap(value => ['Accept', value]),
    JSON_FIRST,
  )
  if (type === undefined) return undefined
  return type === 'text/html' ? 'html' : 'json'
}

t.test('without an Accept field the first type is preferred (RFC 9110 §12.5.1)', async t => {
  t.equal(chosen(), 'json')
  t.equal(preferredMediaType(['Accept-Language', 'text/html'], JSON_FIRST), 'application/json')
  t.equal(preferredMediaType([], ['text/html', 'application/json']), 'text/html')
  t.equal(preferredMediaType(['Accept', '*/*'], []), undefined)
  for (const value of ['', ',', '*/*', 'text/html, application/json', 'text/html;q=0.5, */*;q=0.5']) {
    t.equal(chosen(value), 'json', value)
  }
})

t.test('browsers get HTML, programs JSON', async t => {
  for (const [value, type] of [
    [
      'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7',
      'html',
    ],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'html'],
    ['application/json, text/plain, */*', 'json'],
    ['application/json', 'json'],
    ['text/html', 'html'],
  ] as const) {
    t.equal(chosen(value), type, value)
  }
})

t.test('the most specific range that matches gives the weight (RFC 9110 §12.5.1)', async t => {
  for (const [value, type] of [
    ['text/*', 'html'],
    ['application/*', 'json'],
    ['text/*, */*;q=0.9', 'html'],
    ['*/*, application/*;q=0.9', 'html'],
    ['*/*, application/json;q=0.9', 'html'],
    ['application/json;q=0.9, application/*, text/*;q=0.95', 'html'],
    ['text/html;q=0.1, text/*, application/json;q=0.2', 'json'],
    ['text/html;q=0, */*', 'json'],
    ['application/json;q=0, */*;q=0.1', 'html'],
  ] as const) {
    t.equal(chosen(value), type, value)
    t.equal(chosen(...value.split(', ')), type, `${value}, in several lines`)
    t.equal(chosen(value.split(', ').reverse().join(',')), type, `${value}, the other way round`)
  }
})

t.test('weights have up to three digits, 0 is not acceptable (RFC 9110 §12.4.2)', async t => {
  for (const [value, type] of [
    ['text/html;q=0.501, application/json;q=0.5', 'html'],
    ['text/html;q=0.500, application/json;q=0.5', 'json'],
    ['text/html;q=1.000, application/json;q=0.999', 'html'],
    ['text/html;q=1., application/json;q=0.', 'html'],
    ['text/html;Q=0.6, application/json;q=0.5', 'html'],
    ['text/html ; q=0.6 , application/json\t;\tq=0.5', 'html'],
    ['text/html;q=0.001', 'html'],
    ['text/html;q=0', undefined],
    ['text/html;q=0.000', undefined],
    ['*/*;q=0', undefined],
    ['image/png', undefined],
  ] as const) {
    t.equal(chosen(value), type, value)
  }
})

t.test('a member that cannot be parsed is ignored (RFC 9110 §12.5.1)', async t => {
  for (const member of [
    'text/html;q=2',
    'text/html;q=1.001',
    'text/html;q=0.0001',
    'text/html;q=-1',
    'text/html;q=.5',
    'text/html;q=',
    'text/html;q="1"',
    'text/html;q= 1',
    'text',
    'text/',
    '/html',
    'text/html/x',
    'text /html',
    '*',
    '*/html',
    'te xt/html',
    'text/html q=1',
    '"text/html"',
  ]) {
    t.equal(chosen(`${member}, application/json;q=0.5`), 'json', member)
    t.equal(chosen(member), 'json', `${member} alone is as if nothing was said`)
  }
})

t.test('a range with parameters matches only types with those parameters (RFC 9110 §12.5.1)', async t => {
  t.equal(chosen('text/html;level=1, application/json;q=0.1'), 'json')
  t.equal(chosen('text/html;level=1;q=0.9, text/html;q=0.4, application/json;q=0.5'), 'json')
  t.equal(chosen('text/html;level=1, */*;q=0.1'), 'json')
  t.equal(chosen('text/html;level=1'), undefined)
  t.equal(chosen('text/html;q=0.9;level=1, application/json;q=0.1'), 'json', 'behind the weight too')
  t.equal(chosen('TEXT/HTML;, application/json;q=0.5'), 'html', 'an empty one is none')
})

t.test('a range with some of the parameters of a type matches it (RFC 9110 §12.5.1)', async t => {
  const offered = ['text/plain;version=1', 'a/b;version=2;charset=utf-8'] as const
  for (const [value, type] of [
    ['a/b', 'a/b;version=2;charset=utf-8'],
    ['a/b;version=2', 'a/b;version=2;charset=utf-8'],
    ['A/B; Version=2; Charset=UTF-8', 'a/b;version=2;charset=utf-8'],
    ['a/b;version=1', undefined],
    ['a/b;version=2;more=1', undefined],
    ['a/b;version=2;q=0.1, */*;q=0.5', 'text/plain;version=1'],
    ['a/b;q=0.1, a/b;version=2;q=0.9, text/plain;q=0.5', 'a/b;version=2;charset=utf-8'],
    ['a/b;version=2;q=0.9, a/b;version=2;charset=utf-8;q=0.1, text/plain;q=0.5', 'text/plain;version=1'],
    ['a/b;q=0.9, a/b;version=3;q=0.1, text/plain;q=0.5', 'a/b;version=2;charset=utf-8'],
  ] as const) {
    t.equal(preferredMediaType(['Accept', value], offered), type, value)
  }
})

t.test('separators within quotes do not separate (RFC 9110 §5.6.4)', async t => {
  t.equal(chosen('a/b;c="x, text/html;q=1", application/json;q=0.1'), 'json')
  t.equal(chosen('a/b;c="\\", text/html", application/json;q=0.1'), 'json')
  t.equal(chosen('a/b;c="\\\\", text/html, application/json;q=0.1'), 'html')
  t.equal(chosen('a/b;c=";q=0", text/html, application/json;q=0.1'), 'html')
  t.equal(chosen('a/b;c="open, text/html'), undefined)
})

t.test('the greater weight wins in any order, and no text causes an exception', async t => {
  const weight = fc.nat(1000)
  fc.assert(
    fc.property(weight, weight, fc.boolean(), (html, json, swap) => {
      const members = [`text/html;q=${html / 1000}`, `application/json;q=${json / 1000}`]
      const wanted = html > json ? 'html' : json > 0 ? 'json' : undefined
      t.equal(chosen((swap ? members.reverse() : members).join()), wanted)
    }),
  )
  const pieces = fc.constantFrom('text/html', '*/*', ';', ',', 'q=', '0.5', '"', '\\', ' ', '*', '/')
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: pieces })), text => {
      const type = chosen(text)
      return type === undefined || type === 'html' || type === 'json'
    }),
  )
})
