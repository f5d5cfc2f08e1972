import fc from 'fast-check'
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'
import { decideMaxForwards as decide } from '../../src/http/max-forwards.js'
import { type Method, METHOD_NAMES } from '../../src/http/method.js'

/** Converts the fields from and to lists. */
function decideMaxForwards(method: Method, fields: Fields) {
  const decision = decide(method, FieldSection.of(fields))
  return decision.kind === 'forward' ? { kind: decision.kind, fields: decision.fields.list } : decision
}

const COUNTED = ['OPTIONS', 'TRACE'] as const
const REFUSED = {
  name: 'ProxyError',
  type: 'http_request_error',
  status: 400,
  side: 'client',
  close: false,
  reason: 'max_forwards',
}

t.test('0 ends here, any other number is forwarded less one (RFC 9110 §7.6.2)', async t => {
  for (const method of COUNTED) {
    for (const value of ['0', '00', '0000000000000000']) {
      t.same(decideMaxForwards(method, ['Max-Forwards', value]), { kind: 'final' }, value)
    }
    for (const [value, sent] of [
      ['1', '0'],
      ['2', '1'],
      ['007', '6'],
      ['10', '9'],
      ['2147483647', '2147483646'],
      ['2147483648', '2147483647'],
    ] as const) {
      const fields = ['Max-Forwards', sent]
      t.same(decideMaxForwards(method, ['Max-Forwards', value]), { kind: 'forward', fields }, value)
    }
  }
})

t.test('a number that is too large is lowered, however long it is (RFC 9110 §7.6.2)', async t => {
  for (const value of ['2147483649', '4294967296', '9007199254740993', '9'.repeat(400), '9'.repeat(10_000)]) {
    const fields = ['Max-Forwards', '2147483647']
    t.same(
      decideMaxForwards('TRACE', ['Max-Forwards', value]),
      { kind: 'forward', fields },
      value.slice(0, 20),
    )
  }
})

t.test('without the field there is no limit (RFC 9110 §7.6.2)', async t => {
  for (const method of COUNTED) {
    t.same(decideMaxForwards(method, []), { kind: 'unlimited' })
    t.same(decideMaxForwards(method, ['Forwards', '0', 'X', 'Max-Forwards']), { kind: 'unlimited' })
  }
})

t.test('a value that is not a number is 400, and the connection persists (RFC 9110 §7.6.2)', async t => {
  for (const method of COUNTED) {
    for (const value of [
      '',
      '-1',
      '+1',
      '-0',
      '1 0',
      '1,2',
      '1,',
      '1.0',
      '1e3',
      '0x1',
      'one',
      '1;',
      '\xb9',
      '"1"',
      'Infinity',
      'NaN',
      '1\n',
    ]) {
      t.throws(() => decideMaxForwards(method, ['Max-Forwards', value]), REFUSED, JSON.stringify(value))
    }
  }
})

t.test('a repeated field is 400, even with equal values (RFC 9110 §7.6.2)', async t => {
  for (const [first, second] of [
    ['1', '1'],
    ['0', '0'],
    ['1', '2'],
    ['1', ''],
  ] as const) {
    const fields = ['Max-Forwards', first, 'Host', 'a', 'max-forwards', second]
    t.throws(() => decideMaxForwards('OPTIONS', fields), REFUSED)
  }
})

t.test('with every other method it is forwarded unchanged, valid or not (RFC 9110 §7.6.2)', async t => {
  for (const method of METHOD_NAMES.filter(name => name !== 'OPTIONS' && name !== 'TRACE')) {
    for (const value of ['0', '1', '', 'x', '-1', '1, 2']) {
      const fields = ['Max-Forwards', value, 'Max-Forwards', value]
      t.same(decideMaxForwards(method, fields), { kind: 'unlimited' }, `${method} ${value}`)
    }
  }
})

t.test(
  'the field keeps its position and case, the others are kept, and the input is not changed',
  async t => {
    const fields = ['Host', 'a', 'mAX-forwards', '5', 'X-Max-Forwards', '5', 'X', '\xff', 'x', '']
    const before = [...fields]
    t.same(decideMaxForwards('OPTIONS', fields), {
      kind: 'forward',
      fields: ['Host', 'a', 'mAX-forwards', '4', 'X-Max-Forwards', '5', 'X', '\xff', 'x', ''],
    })
    t.same(fields, before)
  },
)

t.test('decrements any number down to 0, and throws only ProxyError', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 300 }), hops => {
      let fields: readonly string[] = ['Max-Forwards', String(hops)]
      let taken = 0
      for (;;) {
        const decision = decideMaxForwards('TRACE', fields)
        if (decision.kind !== 'forward') return decision.kind === 'final' && taken === hops
        fields = decision.fields
        taken++
      }
    }),
  )
  fc.assert(
    fc.property(
      fc.constantFrom(...METHOD_NAMES),
      fc.array(fc.string(), { maxLength: 3 }),
      (method, values) => {
        try {
          decideMaxForwards(
            method,
            values.flatMap(value => ['Max-Forwards', value]),
          )
        } catch (error) {
          return error instanceof ProxyError
        }
        return true
      },
    ),
  )
})
