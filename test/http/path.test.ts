import t from 'tap'
import { comparablePath, hasDotSegment, isBelow, pathOf } from '../../src/http/path.js'

t.test('a path ends before its query (RFC 3986 §3.3)', async t => {
  t.equal(pathOf('/a?b?c'), '/a')
  t.equal(pathOf('/a'), '/a')
  t.equal(pathOf('/?'), '/')
})

t.test(
  'escapes of unreserved characters are decoded for comparison, and no others (RFC 3986 §6.2.2, §6.2.2.2), whose digits are capitals (§6.2.2.1)',
  async t => {
    for (const [path, comparable] of [
      ['/%61%5A%30%2d%2E%5f%7e', '/aZ0-._~'],
      ['/a%2Fb', '/a%2Fb'],
      ['/%40%5B%60%7B%2f%3a%25%20%00%ff', '/%40%5B%60%7B%2F%3A%25%20%00%FF'],
      ['/caf%c3%A9/%C3%a9c', '/caf%C3%A9/%C3%A9c'],
      ['/%2561', '/%2561'],
      ['/%25c3', '/%25c3'],
      ['/%', '/%'],
      ['/%6', '/%6'],
      ['/%6g', '/%6g'],
    ] as const) {
      t.equal(comparablePath(path), comparable)
    }
  },
)

t.test('a dot segment is detected in every spelling (RFC 3986 §5.2.4)', async t => {
  for (const path of [
    '/.',
    '/..',
    '/./a',
    '/../a',
    '/a/..',
    '/a/.',
    '/a/%2e%2E/b',
    '/a/.%2e',
    '/%2e',
    '/a/..%2fb',
    '/a%2F..%2fb',
    '/a\\..\\b',
    '/a%5c..%5Cb',
    '/a/..;x/b',
    '/a/..%3bx',
    '/a/.;x',
    '..',
  ]) {
    t.ok(hasDotSegment(path), path)
  }
  for (const path of [
    '/',
    '/a.',
    '/.a',
    '/..a',
    '/a..',
    '/...',
    '/a/...;x',
    '/a;..',
    '/%2e%2e%2e',
    '/a.%2eb',
    '/a/%252e%252e',
  ]) {
    t.notOk(hasDotSegment(path), path)
  }
})

t.test('a prefix ends at the end of a segment', async t => {
  for (const [path, prefix, expected] of [
    ['/v1', '/v1', true],
    ['/v1/', '/v1', true],
    ['/v1/x', '/v1', true],
    ['/v10', '/v1', false],
    ['/v1;x', '/v1', false],
    ['/v', '/v1', false],
    ['/V1', '/v1', false],
    ['/x/v1', '/v1', false],
    ['/v1', '/v1/', false],
    ['/v1/', '/v1/', true],
    ['/v1/x', '/v1/', true],
    ['/', '/', true],
    ['/x', '/', true],
    ['//x', '/', true],
  ] as const) {
    t.equal(isBelow(path, prefix), expected, `${path} below ${prefix}`)
  }
})
