import fc from 'fast-check'
import t from 'tap'
import { measureJson } from '../../../src/origin/store/json-text.js'
import { runs } from '../../kit/runs.js'

t.test('nesting and members are those outside of strings, with names that repeat (RFC 8259 §4)', async t => {
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
})

t.test('a number is exact when it comes out with its value, however it is written (RFC 8259 §6)', async t => {
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

t.test('what JSON.stringify writes is exact, and what it changes is not', async () => {
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

/** A value as a fraction with no common tens, for comparison. */
function decimal(literal: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? []
  let value = BigInt(whole + fraction)
  let tens = Number(exponent) - fraction.length
  if (value === 0n) return '0'
  for (; value % 10n === 0n; value /= 10n) tens++
  return `${sign}${value}e${tens}`
}
