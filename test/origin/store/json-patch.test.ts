import t from 'tap'
import {
  applyJsonPatch,
  parseArrayIndex,
  parseJsonPatch,
  parseJsonPointer,
  valueAt,
} from '../../../src/origin/store/json-patch.js'
import type { JsonValue } from '../../../src/origin/store/json-value.js'

const MAX = 1000

function patched(target: string, patch: string, maxBytes = MAX): JsonValue {
  return applyJsonPatch(
    JSON.parse(target) as JsonValue,
    parseJsonPatch(JSON.parse(patch) as JsonValue),
    maxBytes,
  )
}

/** The resulting length of the array. */
function patchedList(target: readonly JsonValue[], operations: JsonValue[]): number {
  return (applyJsonPatch([...target], parseJsonPatch(operations), MAX) as JsonValue[]).length
}

t.test('operations that can be applied (RFC 6902 §4)', async t => {
  for (const [target, operation, result] of [
    // Add, §4.1
    ['{"a":1}', '{"op":"add","path":"/b","value":2}', '{"a":1,"b":2}'],
    ['{"a":1}', '{"op":"add","path":"/a","value":2}', '{"a":2}'],
    ['{"a":1}', '{"op":"add","path":"","value":[]}', '[]'],
    ['[1,2]', '{"op":"add","path":"/0","value":0}', '[0,1,2]'],
    ['[1,2]', '{"op":"add","path":"/2","value":3}', '[1,2,3]'],
    ['[1,2]', '{"op":"add","path":"/-","value":3}', '[1,2,3]'],
    ['[]', '{"op":"add","path":"/-","value":[1]}', '[[1]]'],
    ['{}', '{"op":"add","path":"/-","value":1}', '{"-":1}'],
    ['{}', '{"op":"add","path":"/","value":1}', '{"":1}'],
    ['{}', '{"op":"add","path":"/a~1b~0c~01","value":1}', '{"a/b~c~1":1}'],
    ['{"a":{}}', '{"op":"add","path":"/a/0","value":null}', '{"a":{"0":null}}'],
    ['{}', '{"op":"add","path":"/a","value":1,"more":2}', '{"a":1}'],
    ['1', '{"op":"add","path":"","value":2}', '2'],
    // Remove, §4.2
    ['{"a":1,"b":null}', '{"op":"remove","path":"/b"}', '{"a":1}'],
    ['[1,2,3]', '{"op":"remove","path":"/1"}', '[1,3]'],
    // Replace, §4.3
    ['{"a":1}', '{"op":"replace","path":"/a","value":null}', '{"a":null}'],
    ['[1,2]', '{"op":"replace","path":"/1","value":3}', '[1,3]'],
    ['[1,2]', '{"op":"replace","path":"","value":"x"}', '"x"'],
    // Move, §4.4
    ['{"a":1}', '{"op":"move","from":"/a","path":"/b"}', '{"b":1}'],
    ['[1,2,3]', '{"op":"move","from":"/0","path":"/2"}', '[2,3,1]'],
    ['[1,2,3]', '{"op":"move","from":"/0","path":"/-"}', '[2,3,1]'],
    ['{"a":{"b":1}}', '{"op":"move","from":"/a/b","path":"/a"}', '{"a":1}'],
    ['{"a":1}', '{"op":"move","from":"/a","path":"/a"}', '{"a":1}'],
    ['{"a":1}', '{"op":"move","from":"","path":""}', '{"a":1}'],
    ['{"a":1,"ab":{}}', '{"op":"move","from":"/a","path":"/ab/c"}', '{"ab":{"c":1}}'],
    // Copy, §4.5
    ['{"a":[1]}', '{"op":"copy","from":"/a","path":"/b"}', '{"a":[1],"b":[1]}'],
    ['{"a":1}', '{"op":"copy","from":"","path":"/b"}', '{"a":1,"b":{"a":1}}'],
    // Test, §4.6
    ['{"a":{"b":1,"c":[true,"x"]}}', '{"op":"test","path":"/a","value":{"c":[true,"x"],"b":1.0}}', undefined],
    ['{"a":null}', '{"op":"test","path":"/a","value":null}', undefined],
    ['0', '{"op":"test","path":"","value":-0}', undefined],
    ['{"~1":1}', '{"op":"test","path":"/~01","value":1}', undefined],
  ] as const) {
    t.same(patched(target, `[${operation}]`), JSON.parse(result ?? target), `${operation} on ${target}`)
  }
})

t.test('operations that cannot be applied are 422 (RFC 6902 §5)', async t => {
  for (const [target, operation] of [
    ['{}', '{"op":"add","path":"/a/b","value":1}'],
    ['{"a":"text"}', '{"op":"add","path":"/a/b","value":1}'],
    ['[1,2]', '{"op":"add","path":"/3","value":1}'],
    ['[1,2]', '{"op":"add","path":"/01","value":1}'],
    ['[1,2]', '{"op":"add","path":"/-1","value":1}'],
    ['[1,2]', '{"op":"add","path":"/1.0","value":1}'],
    ['[1,2]', '{"op":"add","path":"/1e0","value":1}'],
    ['[1,2]', '{"op":"add","path":"/a","value":1}'],
    ['[1,2]', '{"op":"add","path":"/","value":1}'],
    ['[1,2]', '{"op":"add","path":"/length","value":1}'],
    ['{}', '{"op":"remove","path":"/a"}'],
    ['{}', '{"op":"remove","path":""}'],
    ['[1,2]', '{"op":"remove","path":"/2"}'],
    ['[1,2]', '{"op":"remove","path":"/-"}'],
    ['[1,2]', '{"op":"remove","path":"/length"}'],
    ['{}', '{"op":"remove","path":"/toString"}'],
    ['{}', '{"op":"replace","path":"/a","value":1}'],
    ['[1]', '{"op":"replace","path":"/1","value":1}'],
    ['[1]', '{"op":"replace","path":"/-","value":1}'],
    ['[1]', '{"op":"replace","path":"/length","value":0}'],
    ['{}', '{"op":"replace","path":"/constructor","value":1}'],
    ['{"a":{"b":1}}', '{"op":"move","from":"/a","path":"/a/b"}'],
    ['{"a":1}', '{"op":"move","from":"","path":"/a"}'],
    ['{}', '{"op":"move","from":"/a","path":"/b"}'],
    ['{}', '{"op":"copy","from":"/a","path":"/b"}'],
    ['{}', '{"op":"copy","from":"/__proto__","path":"/b"}'],
    ['{"a":1}', '{"op":"test","path":"/a","value":"1"}'],
    ['{"a":1}', '{"op":"test","path":"/b","value":null}'],
    ['{"a":[1]}', '{"op":"test","path":"/a","value":{"0":1}}'],
    ['{"a":{}}', '{"op":"test","path":"/a","value":[]}'],
    ['{"a":{"b":1}}', '{"op":"test","path":"/a","value":{"c":1}}'],
    ['{"a":"x"}', '{"op":"test","path":"/a/0","value":"x"}'],
    ['{}', '{"op":"test","path":"/hasOwnProperty","value":null}'],
  ] as const) {
    t.throws(
      () => patched(target, `[${operation}]`),
      { name: 'ProxyError', status: 422 },
      `${operation} on ${target}`,
    )
  }
})

t.test('documents that are not a JSON Patch are 400 (RFC 6902 §3, §4)', async t => {
  for (const document of [
    '{}',
    'null',
    '[1]',
    '[[]]',
    '[{}]',
    '[{"op":"add","value":1}]',
    '[{"op":"add","path":"/a"}]',
    '[{"op":"test","path":"/a"}]',
    '[{"op":"replace","path":"/a"}]',
    '[{"op":"move","path":"/a"}]',
    '[{"op":"copy","path":"/a","from":1}]',
    '[{"op":"Add","path":"/a","value":1}]',
    '[{"op":"spam","path":"/a","value":1}]',
    '[{"op":"remove","path":"a"}]',
    '[{"op":"remove","path":"/~"}]',
    '[{"op":"remove","path":"/~2"}]',
    '[{"op":"remove","path":null}]',
    '[{"op":"add","path":"/a","value":1},{"op":"toString","path":"/a"}]',
  ]) {
    t.throws(
      () => parseJsonPatch(JSON.parse(document) as JsonValue),
      { name: 'ProxyError', status: 400 },
      document,
    )
  }
  const operation = { op: 'test', path: '', value: 1 }
  t.equal(parseJsonPatch(Array(10_000).fill(operation)).length, 10_000)
  t.throws(() => parseJsonPatch(Array(10_001).fill(operation)), { name: 'ProxyError', status: 400 })
  t.same(patched('1', '[]'), 1, 'an empty list is a patch')
})

t.test('no pointer reaches a prototype, and __proto__ is an ordinary member', async t => {
  const result = patched(
    '{"a":{}}',
    '[{"op":"add","path":"/__proto__","value":{"x":1}},{"op":"add","path":"/a/constructor","value":2},{"op":"add","path":"/__proto__/y","value":3}]',
  )
  t.equal(JSON.stringify(result), '{"a":{"constructor":2},"__proto__":{"x":1,"y":3}}')
  t.equal(Object.getPrototypeOf(result), Object.prototype)
  t.equal(({} as Record<string, unknown>)['x'], undefined)
  t.throws(() => patched('{}', '[{"op":"add","path":"/__proto__/x","value":1}]'), {
    name: 'ProxyError',
    status: 422,
  })
  t.throws(() => patched('{}', '[{"op":"add","path":"/constructor/prototype/x","value":1}]'), {
    name: 'ProxyError',
    status: 422,
  })
  t.throws(() => patched('[]', '[{"op":"add","path":"/__proto__/x","value":1}]'), {
    name: 'ProxyError',
    status: 422,
  })
})

t.test('members with any name are found, changed and kept, at any depth', async t => {
  for (const name of [
    '__proto__',
    'constructor',
    'prototype',
    'length',
    '\0constructor',
    '\0\0__proto__',
    '\0',
  ]) {
    const member = JSON.stringify(name)
    const pointer = JSON.stringify(`/${name}`)
    const inner = JSON.stringify(`/${name}/x`)
    for (const [target, operation, result] of [
      [`{}`, `{"op":"add","path":${pointer},"value":1}`, `{${member}:1}`],
      [
        `{}`,
        `{"op":"add","path":"/a","value":[{${member}:{${member}:1}}]}`,
        `{"a":[{${member}:{${member}:1}}]}`,
      ],
      [`{${member}:{"x":1}}`, `{"op":"add","path":${inner},"value":2}`, `{${member}:{"x":2}}`],
      [`{${member}:1,"a":2}`, `{"op":"remove","path":${pointer}}`, `{"a":2}`],
      [`{${member}:1}`, `{"op":"replace","path":${pointer},"value":2}`, `{${member}:2}`],
      [`{${member}:{"x":1}}`, `{"op":"replace","path":${inner},"value":2}`, `{${member}:{"x":2}}`],
      [`{${member}:{"x":1}}`, `{"op":"move","from":${inner},"path":"/a"}`, `{${member}:{},"a":1}`],
      [
        `{"a":{${member}:1}}`,
        `{"op":"copy","from":"/a","path":"/b"}`,
        `{"a":{${member}:1},"b":{${member}:1}}`,
      ],
      [`{${member}:1}`, `{"op":"test","path":${pointer},"value":1}`, `{${member}:1}`],
    ] as const) {
      t.equal(JSON.stringify(patched(target, `[${operation}]`)), result, `${operation} on ${target}`)
    }
  }
  const odd = '{"constructor":"function Array() { [native code] }","length":3}'
  t.equal(JSON.stringify(patched('{}', `[{"op":"add","path":"","value":${odd}}]`)), odd)
  t.throws(() => patched('{}', '[{"op":"add","path":"/toString/x","value":1}]'), {
    name: 'ProxyError',
    status: 422,
  })
  t.same(Object.keys(Object.prototype.toString), [])
})

t.test('a move finds its target after the value has been removed (RFC 6902 §4.4)', async t => {
  const move = (target: string, from: string, path: string): JsonValue =>
    patched(target, JSON.stringify([{ op: 'move', from, path }]))
  t.same(move('[0,{"a":1},{"b":2}]', '/0', '/1/c'), [{ a: 1 }, { b: 2, c: 0 }])
  t.throws(() => move('[0,{"a":1}]', '/0', '/1/c'), { name: 'ProxyError', status: 422 })
  t.same(move('[1,2]', '/0', '/1'), [2, 1])
  t.throws(() => move('[1,2]', '/0', '/2'), { name: 'ProxyError', status: 422 })
  t.throws(() => move('[1,2]', '/0', '/01'), { name: 'ProxyError', status: 422 })
  t.same(move('[1,2]', '/1', '/1'), [1, 2])
  t.throws(() => move('{"a":1}', '/a', '/a/b'), { name: 'ProxyError', status: 422 })
})

t.test('long lists are compared item by item, not by computing a difference', async t => {
  const list = JSON.stringify(Array(50_000).fill(1))
  t.doesNotThrow(() => patched(list, `[{"op":"test","path":"","value":${list}}]`))
  t.throws(() => patched(list, `[{"op":"test","path":"","value":${list.replace('1', '2')}}]`), {
    name: 'ProxyError',
    status: 422,
  })
})

t.test('the number of array items that a patch may move is limited', async t => {
  const length = 2_000_000
  const list = Array(length).fill(1)
  const add = (path: string): JsonValue => ({ op: 'add', path, value: 1 })
  // An operation moves the items from its index on: 2,000,000 and 1,999,999, so 25 operations reach a hundred million.
  const pairs = Array(25)
    .fill([{ op: 'remove', path: '/0' }, add('/0')])
    .flat()
  const appended = Array(1000).fill(add('/-'))
  const replaced = Array(1000).fill({ op: 'replace', path: '/0', value: 2 })
  t.equal(patchedList(list, [...pairs, add(`/${length - 25}`), ...appended, ...replaced]), length + 1001)
  for (const more of [
    add(`/${length - 26}`),
    { op: 'remove', path: `/${length - 26}` },
    { op: 'copy', from: '/0', path: `/${length - 26}` },
    { op: 'move', from: `/${length - 26}`, path: '/-' },
    { op: 'move', from: `/${length - 1}`, path: `/${length - 26}` },
  ]) {
    t.throws(() => patchedList(list, [...pairs, more]), { name: 'ProxyError', status: 422 })
  }
})

t.test('copies are counted in bytes of UTF-8', async t => {
  const copy = '[{"op":"copy","from":"/a","path":"/b"}]'
  t.doesNotThrow(() => patched('{"a":"\u20ac"}', copy, 5))
  t.throws(() => patched('{"a":"\u20ac"}', copy, 4), { name: 'ProxyError', status: 422 })
})

t.test('copies of copies are limited', async t => {
  const double = '{"op":"copy","from":"","path":"/-"}'
  const many = (count: number): string => `[${Array(count).fill(double).join()}]`
  // 2, 4, 9 and 19 bytes.
  t.doesNotThrow(() => patched('[]', many(4), 34))
  t.throws(() => patched('[]', many(4), 33), { name: 'ProxyError', status: 422 })
  t.throws(() => patched('[]', many(60)), { name: 'ProxyError', status: 422 })
})

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

t.test('texts that are not pointers (RFC 6901 §3)', async t => {
  for (const text of ['a', '#/a', '/~', '/~2', '/a~', 'a/']) t.equal(parseJsonPointer(text), undefined, text)
})

t.test('array indices are digits without leading zeros (RFC 6901 §4)', async t => {
  t.equal(parseArrayIndex('0'), 0)
  t.equal(parseArrayIndex('10'), 10)
  for (const text of ['', '-', '-0', '+1', '01', '1.0', '1e1', ' 1', '99999999999']) {
    t.equal(parseArrayIndex(text), undefined, text)
  }
})
