import fc from 'fast-check'
import t from 'tap'
import {
  checkPathLength,
  encodeSegment,
  parseStorePath,
  splitPath,
} from '../../../src/origin/store/store-path.js'
import { put, storeServer } from '../../kit/proxies/store-server.js'
import { runs } from '../../kit/runs.js'

t.test('a path has one normal form (RFC 3986 §6.2.2)', async t => {
  for (const [target, text] of [
    ['/', '/'],
    ['/a', '/a'],
    ['/a/', '/a/'],
    ['/%61', '/a'],
    ['/%7e', '/~'],
    ['/a%2fb', '/a%2Fb'],
    ['/a+b@c:d', '/a%2Bb%40c%3Ad'],
    ['/a%20b', '/a%20b'],
    ['/%e4', '/%E4'],
    ['/%C3%A4', '/%C3%A4'],
    ['/a%252Fb', '/a%252Fb'],
    ['/...', '/...'],
    ['/.a/a.', '/.a/a.'],
    ['/a?b/../c', '/a'],
    ['/a%3Fb', '/a%3Fb'],
    ['/a\\..\\b', '/a%5C..%5Cb'],
  ] as const) {
    t.equal(parseStorePath(target).text, text, target)
  }
  t.not(parseStorePath('/a').text, parseStorePath('/A').text)
})

t.test('an invalid path is 400', async t => {
  for (const target of [
    '//',
    '//a',
    '/a//b',
    '/a//',
    '/.',
    '/..',
    '/./',
    '/a/../b',
    '/a/..',
    '/%2e',
    '/%2E%2e/',
    '/.%2e/x',
    '/a%00b',
    '/%',
    '/%4',
    '/%4g',
    '/a%',
    '',
    '*',
    'a',
  ]) {
    t.throws(() => parseStorePath(target), { name: 'ProxyError', status: 400 }, target)
  }
})

t.test('a path has at most 64 segments, and a collection one less', async t => {
  t.equal(parseStorePath('/a'.repeat(64)).text, '/a'.repeat(64))
  t.equal(parseStorePath(`${'/a'.repeat(63)}/`).text, `${'/a'.repeat(63)}/`)
  for (const target of ['/a'.repeat(65), `${'/a'.repeat(64)}/`, `/${'d/'.repeat(4000)}x`]) {
    t.throws(() => parseStorePath(target), { status: 400, message: 'the path has more than 64 segments' })
  }
  const server = await storeServer(t)
  const created = await server.request(`${'/a'.repeat(63)}/`, { method: 'POST', body: 'x' })
  t.equal(created.status, 201)
  t.equal(
    (await server.request(created.fields['location'] ?? '')).body,
    'x',
    'what POST makes can be asked for',
  )
  t.equal((await server.request('/b'.repeat(65), { method: 'PUT', body: 'x' })).status, 400)
  t.equal((await server.request('/', {})).body.includes('"b/"'), false)
})

t.test('a path that is too long when percent-encoded is 414', async t => {
  for (const [text, length] of [
    ['/aaa', 4 + 18],
    ['/%3A%3A', 7 + 18],
  ] as const) {
    t.doesNotThrow(() => checkPathLength(text, length), text)
    t.throws(() => checkPathLength(text, length - 1), { name: 'ProxyError', status: 414 }, text)
  }
  const server = await storeServer(t, { targetBytes: 256 })
  // Each colon becomes three characters.
  const longest = `/${':'.repeat((256 - 18 - 1) / 3)}`
  t.equal((await server.request(`${longest}:`, { method: 'PUT', body: 'x' })).status, 414)
  t.equal((await server.request(`/${'a'.repeat(225)}/`, { method: 'POST', body: 'x' })).status, 414)
  for (const target of [longest, `${longest.slice(0, -1)}/a`]) {
    const created = await server.request(target, { method: 'PUT', body: target })
    t.equal(created.status, 201, target)
    t.equal((await server.request(created.fields['location'] ?? '')).body, target)
  }
  await put(server, '/z', '')
  for (let next: string | null = '/?limit=1'; next !== null; ) {
    t.ok(next.length <= 256, next)
    next = (JSON.parse((await server.request(next)).body) as { next: string | null }).next
  }
})

t.test('different bytes are different names, and normalising a normal form does not change it', async () => {
  const segment = fc.uint8Array({ minLength: 1, maxLength: 8 }).filter(bytes => {
    const text = Buffer.from(bytes).toString('latin1')
    return !bytes.includes(0) && text !== '.' && text !== '..'
  })
  const path = fc.array(segment, { minLength: 1, maxLength: 3 })
  const textOf = (segments: readonly Uint8Array[]): string =>
    parseStorePath(`/${segments.map(encodeSegment).join('/')}`).text
  fc.assert(
    fc.property(path, path, (a, b) => {
      const same = JSON.stringify(a.map(x => [...x])) === JSON.stringify(b.map(x => [...x]))
      return (textOf(a) === textOf(b)) === same && parseStorePath(textOf(a)).text === textOf(a)
    }),
  )
})

t.test('the normal form of any target consists of safe characters without dot segments', async () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'/.%2eEfF50a?\\~'), maxLength: 20 }), rest => {
      let text: string
      try {
        text = parseStorePath(`/${rest}`).text
      } catch {
        return true
      }
      const segments = text.split('/').slice(1)
      return /^[A-Za-z0-9._~%/-]+$/.test(text) && segments.every(one => one !== '.' && one !== '..')
    }),
    { numRuns: runs(2000) },
  )
})

t.test('the parent collection of a path', async t => {
  t.equal(splitPath('/'), undefined)
  t.same(splitPath('/a'), { parent: '/', name: 'a' })
  t.same(splitPath('/a/'), { parent: '/', name: 'a/' })
  t.same(splitPath('/a/b/c'), { parent: '/a/b/', name: 'c' })
  t.same(splitPath('/a/b/'), { parent: '/a/', name: 'b/' })
})

t.test('paths that differ in case, encoding or a slash are different resources', async t => {
  const server = await storeServer(t)
  const targets = [
    '/a',
    '/A',
    '/a%2Fb',
    '/a/b',
    '/a%252Fb',
    '/%C3%A4',
    '/%E4',
    '/a.',
    '/a%20',
    `/${'x'.repeat(5000)}`,
  ]
  for (const [index, target] of targets.entries()) await put(server, target, `content ${index}`)
  for (const [index, target] of targets.entries()) {
    t.equal((await server.request(target)).body, `content ${index}`, target.slice(0, 20))
  }
  t.equal((await server.request('/%61')).body, 'content 0')
  t.equal((await server.request('/a/../a')).status, 400)
  const created = await server.request('/sp%20ace:1', { method: 'PUT', body: '' })
  t.equal(created.fields['location'], '/sp%20ace%3A1')
})
