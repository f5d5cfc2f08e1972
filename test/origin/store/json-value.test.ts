import t from 'tap'
import {
  isSameJson,
  type JsonValue,
  mapNames,
  parseJson,
  serializeJson,
} from '../../../src/origin/store/json-value.js'

const parsed = (text: string): JsonValue => parseJson(Buffer.from(text))

t.test('numbers that would come out as others are not taken', async t => {
  for (const number of [
    '0',
    '-1',
    '9007199254740991',
    '0.1',
    '1e10',
    '0.30000000000000004',
    '100000000000000',
    '0.0',
  ]) {
    t.equal(parsed(`[${number}]`)?.toString(), Number(number).toString(), number)
    t.doesNotThrow(() => parsed(`{"a":"1e999","b\\\\\\"":${number}}`), number)
  }
  for (const number of [
    '9007199254740993',
    '1e400',
    '-1e400',
    '1e-400',
    '12345678901234567890',
    '0.1234567890123456789',
  ]) {
    t.throws(() => parsed(`[${number}]`), { name: 'JsonError' }, number)
    t.doesNotThrow(() => parsed(`["${number}", "\\\\", "\\"${number}"]`), 'in a string it is none')
  }
})

t.test('what is not JSON in UTF-8 is not taken (RFC 8259)', async t => {
  for (const text of ['', '{', "{'a':1}", '[1,]', 'NaN', '01', '\ufeff{}']) t.throws(() => parsed(text), text)
  t.throws(() => parseJson(Buffer.from([0x22, 0xff, 0x22])))
})

t.test('equality looks at own members and not at their order', async t => {
  t.ok(isSameJson(parsed('{"a":1,"b":[{}]}'), parsed('{"b":[{}],"a":1.0}')))
  for (const [a, b] of [
    ['{"a":1}', '{"a":1,"b":2}'],
    ['{"toString":1}', '{"a":1}'],
    ['[]', '{}'],
    ['null', '{}'],
    ['0', 'false'],
    ['[1,2]', '[2,1]'],
  ] as const) {
    t.notOk(isSameJson(parsed(a), parsed(b)), `${a} ${b}`)
    t.notOk(isSameJson(parsed(b), parsed(a)), `${b} ${a}`)
  }
})

t.test('nesting has a limit, which what stands in strings does not count for', async t => {
  const nested = (depth: number) => `${'['.repeat(depth)}"]]]{{"${']'.repeat(depth)}`
  t.doesNotThrow(() => parsed(nested(500)))
  t.throws(() => parsed(nested(501)), { name: 'JsonError', message: 'nested more than 500 deep' })
  t.throws(() => parsed(`{"a":${nested(500)}}`), { name: 'JsonError' })
  t.doesNotThrow(() => parsed(`[${'[],'.repeat(600)}{}]`), 'many are not deep')
})

t.test('a value is not written deeper than it could be read (RFC 8259 §9)', async t => {
  const inner = parsed(`${'['.repeat(499)}${']'.repeat(499)}`)
  t.equal(serializeJson([inner]), `${'['.repeat(500)}${']'.repeat(500)}`)
  t.throws(() => serializeJson({ a: [inner] }), { name: 'JsonError', message: 'nested more than 500 deep' })
})

t.test('a name that an object has twice would be lost, and is not taken (RFC 8259 §4)', async t => {
  for (const text of [
    '{"a":1,"a":1}',
    '[0,{"b":[{"a":1,"c":{},"\\u0061":2}]}]',
    '{"__proto__":1,"__proto__":2}',
    '{"1":{},"1":{"a":1}}',
  ]) {
    t.throws(
      () => parsed(text),
      { name: 'JsonError', message: 'an object has two members of one name' },
      text,
    )
  }
  for (const text of [
    '{"a":{"a":{"a":":"}},"A":[{"a":1},{"a":1}]}',
    '{"__proto__":{"__proto__":null}}',
    '{"":1}',
  ]) {
    t.equal(JSON.stringify(parsed(text)), text)
  }
})

t.test('members are given other names, in their order and at every depth', async t => {
  const value = parsed('{"b":[{"a":null,"__proto__":{"a":"a"}}],"a":1}')
  const renamed = mapNames(value, name => `${name}!`)
  t.equal(JSON.stringify(renamed), '{"b!":[{"a!":null,"__proto__!":{"a!":"a"}}],"a!":1}')
  t.equal(
    JSON.stringify(mapNames(renamed, name => name.slice(0, -1))),
    '{"b":[{"a":null,"__proto__":{"a":"a"}}],"a":1}',
  )
  t.equal(
    mapNames(value, name => name),
    value,
    'nothing is copied where no name changes',
  )
})
