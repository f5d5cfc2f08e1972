import fc from 'fast-check'
import t from 'tap'
import { METHOD_NAMES } from '../../src/http/method.js'
import {
  type ByteRange,
  decideRange,
  parseContentRange,
  serializeContentRange,
  serializeUnsatisfiedRange,
} from '../../src/http/range.js'
import { runs } from '../kit/runs.js'

/** `first-last` for one range, `first-last first-last` for several, otherwise the kind. */
function decided(value: string, length = 100): string {
  const decision = decideRange('GET', ['Range', value], length)
  switch (decision.kind) {
    case 'full':
    case 'unsatisfiable':
      return decision.kind
    case 'single':
      return shown(decision.range)
    case 'multipart':
      return decision.ranges.map(shown).join(' ')
  }
}

function shown({ first, last }: ByteRange): string {
  return `${first}-${last}`
}

t.test('one range: from and to, open, and from the end (RFC 9110 §14.1.2)', async t => {
  for (const [value, wanted] of [
    ['bytes=0-0', '0-0'],
    ['bytes=0-9', '0-9'],
    ['bytes=10-19', '10-19'],
    ['bytes=0-99', '0-99'],
    ['bytes=0-100', '0-99'],
    ['bytes=0-', '0-99'],
    ['bytes=98-', '98-99'],
    ['bytes=99-', '99-99'],
    ['bytes=99-99', '99-99'],
    ['bytes=99-1000', '99-99'],
    ['bytes=-1', '99-99'],
    ['bytes=-99', '1-99'],
    ['bytes=-100', '0-99'],
    ['bytes=-101', '0-99'],
    ['bytes=007-08', '7-8'],
  ] as const) {
    t.equal(decided(value), wanted, value)
  }
  t.equal(decided('bytes=0-', 1), '0-0')
  t.equal(decided('bytes=-5', 1), '0-0')
})

t.test('numbers of any length do not overflow (RFC 9110 §14.1.2)', async t => {
  const huge = '9'.repeat(500)
  t.equal(decided(`bytes=0-${huge}`), '0-99')
  t.equal(decided(`bytes=-${huge}`), '0-99')
  t.equal(decided(`bytes=${huge}-`), 'unsatisfiable')
  t.equal(decided('bytes=9007199254740992-9007199254740993'), 'unsatisfiable')
  t.equal(decided('bytes=9007199254740993-9007199254740992'), 'full', 'the wrong way round is invalid')
})

t.test('a set without a satisfiable range is 416 (RFC 9110 §15.5.17)', async t => {
  for (const value of [
    'bytes=100-',
    'bytes=100-100',
    'bytes=100-200',
    'bytes=-0',
    'bytes=-00',
    'bytes=100-,200-,-0',
  ]) {
    t.equal(decided(value), 'unsatisfiable', value)
  }
  t.equal(decided('bytes=1-', 1), 'unsatisfiable')
  t.equal(decided('bytes=100-,5-5,-0'), '5-5', 'some of it is enough')
  t.equal(decided('bytes=1-1,100-,5-5'), '1-1 5-5')
})

t.test('a set with an invalid member is ignored as a whole (RFC 9110 §14.1.1)', async t => {
  for (const value of [
    'bytes=1-0',
    'bytes=99-98',
    'bytes=0-1,5-4',
    'bytes=200-100',
    'bytes=',
    'bytes=,',
    'bytes=-',
    'bytes=0',
    'bytes=0-1-2',
    'bytes=--1',
    'bytes=+0-1',
    'bytes=0-+1',
    'bytes=a-b',
    'bytes=0x0-0x1',
    'bytes=0 - 1',
    'bytes=0-1 2-3',
    'bytes=0-1;2-3',
    'bytes=0-1, x',
    'bytes= 0-1',
    'bytes =0-1',
    'bytes:0-1',
    'bytes 0-1',
    'bytes',
    '=0-1',
    '0-1',
    '',
    'bytes=\u0660-\u0661',
    'bytes=0-1\n',
    'bytes=0-1, bytes=2-3',
  ]) {
    t.equal(decided(value), 'full', JSON.stringify(value))
  }
})

t.test(
  'a unit other than bytes is ignored; the case of the unit does not matter (RFC 9110 §14.2)',
  async t => {
    for (const value of ['items=0-1', 'byte=0-1', 'bytess=0-1', 'none=0-1', 'xbytes=0-1']) {
      t.equal(decided(value), 'full', value)
    }
    for (const value of ['Bytes=0-1', 'BYTES=0-1']) t.equal(decided(value), '0-1', value)
  },
)

t.test('Range applies only to GET, and only when it occurs once (RFC 9110 §14.2)', async t => {
  for (const method of METHOD_NAMES) {
    const kind = method === 'GET' ? 'single' : 'full'
    t.equal(decideRange(method, ['Range', 'bytes=0-1'], 100).kind, kind, method)
    if (method !== 'GET') t.equal(decideRange(method, ['Range', 'bytes=100-'], 100).kind, 'full', method)
  }
  t.equal(decideRange('GET', [], 100).kind, 'full')
  t.equal(decideRange('GET', ['If-Range', 'bytes=0-1'], 100).kind, 'full')
  t.equal(decideRange('GET', ['rANGE', 'bytes=0-1'], 100).kind, 'single')
  t.equal(decideRange('GET', ['Range', 'bytes=0-1', 'range', 'bytes=2-3'], 100).kind, 'full')
})

t.test('an empty representation is sent whole (RFC 9110 §14.2)', async t => {
  for (const value of ['bytes=0-', 'bytes=0-0', 'bytes=-1', 'bytes=-0', 'bytes=5-', 'bytes=0-1,2-3']) {
    t.equal(decided(value, 0), 'full', value)
  }
})

t.test('several ranges keep the requested order (RFC 9110 §15.3.7.2)', async t => {
  for (const [value, wanted] of [
    ['bytes=0-0,2-2', '0-0 2-2'],
    ['bytes=0-4,5-9', '0-4 5-9'],
    ['bytes=50-59, 0-9', '50-59 0-9'],
    ['bytes=-1,0-0', '99-99 0-0'],
    ['bytes=0-1,\t4-5 ,,8-', '0-1 4-5 8-99'],
    ['bytes=,0-1,', '0-1'],
  ] as const) {
    t.equal(decided(value), wanted, value)
  }
})

t.test('overlapping ranges are merged (RFC 9110 §15.3.7.2)', async t => {
  for (const [value, wanted] of [
    ['bytes=0-5,5-9', '0-9'],
    ['bytes=0-9,2-3', '0-9'],
    ['bytes=2-3,0-9', '0-9'],
    ['bytes=0-9,0-9', '0-9'],
    ['bytes=0-,0-,0-,0-', '0-99'],
    ['bytes=0-0,-100', '0-99'],
    ['bytes=50-60,0-9,55-70', '50-70 0-9'],
    ['bytes=0-9,50-60,5-20', '0-20 50-60'],
    ['bytes=5-20,50-60,0-9', '0-20 50-60'],
    ['bytes=80-90,20-30,25-85', '20-90'],
    ['bytes=90-95,0-1,20-30,25-40', '90-95 0-1 20-40'],
  ] as const) {
    t.equal(decided(value), wanted, value)
  }
})

t.test('more than sixteen ranges are ignored, satisfiable or not (RFC 9110 §14.2)', async t => {
  const set = (count: number, from = 0) =>
    `bytes=${Array.from({ length: count }, (_, i) => `${from + i * 2}-${from + i * 2}`).join(',')}`
  t.equal(decided(set(16)).split(' ').length, 16)
  t.equal(decided(set(17)), 'full')
  t.equal(decided(set(16, 1000)), 'unsatisfiable')
  t.equal(decided(set(17, 1000)), 'full')
  t.equal(decided(`bytes=${'0-,'.repeat(16)}`), '0-99')
  t.equal(decided(`bytes=${'0-,'.repeat(17)}`), 'full')
  t.equal(decided(`bytes=${','.repeat(1000)}0-0`), '0-0', 'empty members are not ranges')
})

t.test('Content-Range has the bytes and the length of the whole (RFC 9110 §14.4)', async t => {
  t.equal(serializeContentRange({ first: 0, last: 499 }, 1234), 'bytes 0-499/1234')
  t.equal(serializeContentRange({ first: 0, last: 0 }, 1), 'bytes 0-0/1')
  t.equal(serializeUnsatisfiedRange(1234), 'bytes */1234')
})

t.test('every requested byte is sent, exactly once, and no other', async () => {
  const position = fc.nat(60)
  const spec = fc.oneof(
    fc.tuple(position, position).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
    position.map(first => `${first}-`),
    position.map(count => `-${count}`),
  )
  fc.assert(
    fc.property(
      fc.array(spec, { minLength: 1, maxLength: 16 }),
      fc.integer({ min: 1, max: 50 }),
      (specs, length) => {
        const wanted = new Set<number>()
        for (const [first = '', last = ''] of specs.map(text => text.split('-'))) {
          const start = first === '' ? Math.max(0, length - Number(last)) : Number(first)
          const end = first === '' || last === '' ? length - 1 : Math.min(Number(last), length - 1)
          for (let i = start; i <= end; i++) wanted.add(i)
        }
        const decision = decideRange('GET', ['Range', `bytes=${specs.join(',')}`], length)
        if (decision.kind === 'unsatisfiable') return wanted.size === 0
        if (decision.kind === 'full') return false
        const ranges = decision.kind === 'single' ? [decision.range] : decision.ranges
        const sent = ranges.flatMap(({ first, last }) =>
          Array.from({ length: last - first + 1 }, (_, i) => first + i),
        )
        return (
          sent.length === wanted.size &&
          sent.every(byte => wanted.has(byte)) &&
          ranges.length > 1 === (decision.kind === 'multipart')
        )
      },
    ),
    { numRuns: runs(500) },
  )
})

t.test('any text gives a decision, whose ranges lie in the representation', async () => {
  const unit = fc.constantFrom('bytes=', '0', '1', '99', '-', ',', ' ', '\t')
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit })), fc.nat(120), (text, length) => {
      const decision = decideRange('GET', ['Range', text], length)
      const ranges =
        decision.kind === 'single' ? [decision.range] : decision.kind === 'multipart' ? decision.ranges : []
      return ranges.every(({ first, last }) => 0 <= first && first <= last && last < length)
    }),
  )
})

t.test('Content-Range is parsed if its unit is bytes and its range is possible (RFC 9110 §14.4)', async t => {
  for (const [value, wanted] of [
    ['bytes 0-4/10', { first: 0, last: 4, completeLength: 10 }],
    ['BYTES 0-4/10', { first: 0, last: 4, completeLength: 10 }],
    ['bytes 9-9/10', { first: 9, last: 9, completeLength: 10 }],
    ['bytes 0-4/*', { first: 0, last: 4 }],
    ['bytes 0-999999999999999/*', { first: 0, last: 999_999_999_999_999 }],
    ['bytes 0-9999999999999999/*', undefined],
    ['bytes 9-10/10', undefined],
    ['bytes 5-4/10', undefined],
    ['bytes */10', undefined],
    ['bytes 0-4', undefined],
    ['bytes=0-4/10', undefined],
    ['bytes  0-4/10', undefined],
    ['bytes 0-4/10 ', undefined],
    ['bytes -4/10', undefined],
    ['bytes 0-/10', undefined],
    ['lines 0-4/10', undefined],
    ['', undefined],
  ] as const) {
    t.same(parseContentRange(value), wanted, value)
  }
})
