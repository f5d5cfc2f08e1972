import t from 'tap'
import { parseArrayIndex, parseJsonPointer, valueAt } from '../../../src/origin/store/json-pointer.js'

t.test('the pointers of RFC 6901 §5', async t => {
  const document = JSON.parse(
    '{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\\\j":5,"k\\"l":6," ":7,"m~n":8}',
  )
  for (const [text, value] of [
    ['', document],
    ['/foo', ['bar', 'baz']],
    ['/foo/0', 'bar'],
    ['/', 0],
    ['/a~1b', 1],
    ['/c%d', 2],
    ['/e^f', 3],
    ['/g|h', 4],
    ['/i\\j', 5],
    ['/k"l', 6],
    ['/ ', 7],
    ['/m~0n', 8],
    ['/foo/2', undefined],
    ['/foo/-', undefined],
    ['/foo/00', undefined],
    ['/foo/length', undefined],
    ['/foo/0/0', undefined],
  ] as const) {
    t.same(valueAt(document, parseJsonPointer(text) ?? ['none']), value, text)
  }
})

t.test('what is no pointer (RFC 6901 §3)', async t => {
  for (const text of ['a', '#/a', '/~', '/~2', '/a~', 'a/']) t.equal(parseJsonPointer(text), undefined, text)
})

t.test('array indices are digits without leading zeros (RFC 6901 §4)', async t => {
  t.equal(parseArrayIndex('0'), 0)
  t.equal(parseArrayIndex('10'), 10)
  for (const text of ['', '-', '-0', '+1', '01', '1.0', '1e1', ' 1', '99999999999']) {
    t.equal(parseArrayIndex(text), undefined, text)
  }
})
