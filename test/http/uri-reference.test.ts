import fc from 'fast-check'
import t from 'tap'
import { isSameOrigin, resolveReference } from '../../src/http/uri-reference.js'
import { runs } from '../kit/runs.js'

const BASE = 'http://a:80/b/c/d;p?q'

t.test('references are resolved as in the examples of the section (RFC 3986 §5.2, §5.2.4)', async t => {
  for (const [reference, wanted] of [
    ['g', 'http://a:80/b/c/g'],
    ['./g', 'http://a:80/b/c/g'],
    ['g/', 'http://a:80/b/c/g/'],
    ['/g', 'http://a:80/g'],
    ['//g', 'http://g:80/'],
    ['?y', 'http://a:80/b/c/d;p?y'],
    ['g?y', 'http://a:80/b/c/g?y'],
    ['#s', 'http://a:80/b/c/d;p?q'],
    ['g#s', 'http://a:80/b/c/g'],
    ['g?y#s', 'http://a:80/b/c/g?y'],
    [';x', 'http://a:80/b/c/;x'],
    ['g;x?y#s', 'http://a:80/b/c/g;x?y'],
    ['', 'http://a:80/b/c/d;p?q'],
    ['.', 'http://a:80/b/c/'],
    ['./', 'http://a:80/b/c/'],
    ['..', 'http://a:80/b/'],
    ['../', 'http://a:80/b/'],
    ['../g', 'http://a:80/b/g'],
    ['../..', 'http://a:80/'],
    ['../../', 'http://a:80/'],
    ['../../g', 'http://a:80/g'],
    ['../../../g', 'http://a:80/g'],
    ['/./g', 'http://a:80/g'],
    ['/../g', 'http://a:80/g'],
    ['g.', 'http://a:80/b/c/g.'],
    ['.g', 'http://a:80/b/c/.g'],
    ['g..', 'http://a:80/b/c/g..'],
    ['..g', 'http://a:80/b/c/..g'],
    ['./../g', 'http://a:80/b/g'],
    ['./g/.', 'http://a:80/b/c/g/'],
    ['g/./h', 'http://a:80/b/c/g/h'],
    ['g/../h', 'http://a:80/b/c/h'],
    ['g;x=1/./y', 'http://a:80/b/c/g;x=1/y'],
    ['g;x=1/../y', 'http://a:80/b/c/y'],
    ['g?y/./x', 'http://a:80/b/c/g?y/./x'],
    ['g?y/../x', 'http://a:80/b/c/g?y/../x'],
    ['g:h', undefined],
    ['http:g', undefined],
  ] as const) {
    t.equal(resolveReference(reference, BASE), wanted, reference)
  }
})

t.test('a URI has the form of a cache key: authority in lower case, with its port', async t => {
  for (const [reference, wanted] of [
    ['http://EXAMPLE.com', 'http://example.com:80/'],
    ['HTTP://example.com:/x', 'http://example.com:80/x'],
    ['http://example.com:0080/x', 'http://example.com:80/x'],
    ['http://example.com:8080?q', 'http://example.com:8080/?q'],
    ['https://example.com/%7Ex', 'https://example.com:443/%7Ex'],
    ['http://[::1]/x', 'http://[::1]:80/x'],
    ['http://[::1]:81/x', 'http://[::1]:81/x'],
    ['http:///x', undefined],
    ['http://u@example.com/', undefined],
    ['http://example.com:8o/', undefined],
    ['http://[::1/', undefined],
    ['ftp://example.com/', undefined],
    ['/with space', undefined],
    ['/\x7f', undefined],
    ['/\xe9', undefined],
  ] as const) {
    t.equal(resolveReference(reference, BASE), wanted, reference)
  }
  t.equal(resolveReference('/x', 'no uri'), undefined)
})

t.test('the origin is scheme, host and port together (RFC 9110 §4.3.1)', async t => {
  t.ok(isSameOrigin('http://a:80/x', 'http://a:80/y?z'))
  for (const other of ['https://a:80/x', 'http://b:80/x', 'http://a:81/x', 'no uri']) {
    t.notOk(isSameOrigin('http://a:80/x', other), other)
  }
  t.notOk(isSameOrigin('no uri', 'no uri'))
})

t.test('a URI without an authority is invalid (RFC 9110 §4.2.1)', async t => {
  t.equal(resolveReference('http:/x', BASE), undefined)
})

t.test('a resolved URI is unchanged when it is resolved again', async () => {
  const reference = fc.string({
    unit: fc.constantFrom('.', '/', 'g', '?', '#', ':', '..', '%2e', '//', 'http:'),
  })
  fc.assert(
    fc.property(reference, text => {
      const uri = resolveReference(text, BASE)
      return uri === undefined || resolveReference(uri, BASE) === uri
    }),
    { numRuns: runs(1000) },
  )
})
