import fc from 'fast-check'
import t from 'tap'
import {
  isSameJson,
  type JsonValue,
  mapNames,
  measureJson,
  parseJson,
  serializeJson,
} from '../../../src/origin/store/json-value.js'
import { runs } from '../../kit/runs.js'

const parsed = (text: string): JsonValue => parseJson(Buffer.from(text))

t.test('numbers that cannot be represented exactly are refused', async t => {
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

t.test('text that is not JSON in UTF-8 is refused (RFC 8259)', async t => {
  for (const text of ['', '{', "{'a':1}", '[1,]', 'NaN', '01', '\ufeff{}']) t.throws(() => parsed(text), text)
  t.throws(() => parseJson(Buffer.from([0x22, 0xff, 0x22])))
})

t.test('equality depends on own members, not on their order', async t => {
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

t.test('nesting is limited, and brackets in strings do not count', async t => {
  const nested = (depth: number) => `${'['.repeat(depth)}"]]]{{"${']'.repeat(depth)}`
  t.doesNotThrow(() => parsed(nested(500)))
  t.throws(() => parsed(nested(501)), { name: 'JsonError', message: 'nested more than 500 levels deep' })
  t.throws(() => parsed(`{"a":${nested(500)}}`), { name: 'JsonError' })
  t.doesNotThrow(() => parsed(`[${'[],'.repeat(600)}{}]`), 'many are not deep')
})

t.test('a value that is nested too deeply to be parsed is not serialized (RFC 8259 §9)', async t => {
  const inner = parsed(`${'['.repeat(499)}${']'.repeat(499)}`)
  t.equal(serializeJson([inner]), `${'['.repeat(500)}${']'.repeat(500)}`)
  t.throws(() => serializeJson({ a: [inner] }), {
    name: 'JsonError',
    message: 'nested more than 500 levels deep',
  })
})

t.test('an object with two members of the same name is refused (RFC 8259 §4)', async t => {
  for (const text of [
    '{"a":1,"a":1}',
    '[0,{"b":[{"a":1,"c":{},"\\u0061":2}]}]',
    '{"__proto__":1,"__proto__":2}',
    '{"1":{},"1":{"a":1}}',
  ]) {
    t.throws(
      () => parsed(text),
      { name: 'JsonError', message: 'an object has two members of the same name' },
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

t.test('members are renamed in their order and at every depth', async t => {
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

t.test(
  'nesting and members are counted outside of strings, repeated names included (RFC 8259 §4)',
  async t => {
    for (const [text, depth, members] of [
      ['1', 0, 0],
      ['""', 0, 0],
      ['"[{:\\"[{:\\\\"', 0, 0],
      ['[]', 1, 0],
      ['[[],[[]],{}]', 3, 0],
      ['{"a":{"b":[1,-2.5e3,"\\\\"]},"a":null}', 3, 3],
      [' { "a" : 1 , "a" : 1 } ', 1, 2],
    ] as const) {
      t.doesNotThrow(() => JSON.parse(text) as unknown)
      t.same(measureJson(text), { depth, members, exact: true }, text)
    }
  },
)

t.test('a number is exact if it keeps its value, in any notation (RFC 8259 §6)', async t => {
  for (const number of [
    '0',
    '-0',
    '0e999',
    '-0.000e-999',
    '1e10',
    '1E+99',
    '1.2345678901234566e-07',
    '1.2345678901234568e+16',
    '6.62607015e-34',
    '1.50000000000000000',
    `1.${'0'.repeat(1000)}`,
    `0.${'0'.repeat(300)}1`,
    '1.7976931348623157e308',
    '1.7976931348623157e+308',
    '2.2250738585072014e-308',
    '1e-307',
    '1e308',
    '5e-324',
    '-5e-324',
    '50E-325',
    '100000000000000000000000',
    '0.30000000000000004',
    '9007199254740992',
    '999999999999999e-99',
  ]) {
    t.ok(measureJson(`[${number}]`).exact, number)
    t.equal(decimal(number), decimal(JSON.stringify(Number(number))), number)
  }
  for (const number of [
    '9007199254740993',
    '-9007199254740993',
    '1.0000000000000001e0',
    '1.23456789012345e-320',
    '4.9e-324',
    '1e-400',
    `0.${'0'.repeat(400)}1`,
    '1e309',
    '-1e309',
    `1${'0'.repeat(400)}`,
    '1e99999999999999999999',
    '1e-99999999999999999999',
    '1.7976931348623159e308',
    '12345678901234567890',
    '0.1234567890123456789',
  ]) {
    t.notOk(measureJson(`{"a":[1,${number}]}`).exact, number)
    t.ok(measureJson(`["${number}",1]`).exact, 'in a string it is none')
  }
})

t.test('what JSON.stringify writes is exact, what it changes is not', async () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), value => measureJson(`${value}`).exact),
  )
  const digits = fc.integer({ min: 1, max: 999_999_999 })
  fc.assert(
    fc.property(digits, digits, fc.integer({ min: -330, max: 310 }), (a, b, exponent) => {
      const literal = `${a}.${b}e${exponent}`
      const written = JSON.stringify(Number(literal))
      return measureJson(literal).exact === (written !== 'null' && decimal(written) === decimal(literal))
    }),
    { numRuns: runs(2000) },
  )
})

/** A value as a fraction reduced by powers of ten, for comparison. */
function decimal(literal: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? []
  let value = BigInt(whole + fraction)
  let tens = Number(exponent) - fraction.length
  if (value === 0n) return '0'
  for (; value % 10n === 0n; value /= 10n) tens++
  return `${sign}${value}e${tens}`
}
