import fc from 'fast-check'
import t from 'tap'
import { decidePreconditions, type Precondition, type Validators } from '../../src/http/conditional.js'
import { serializeHttpDate } from '../../src/http/date.js'
import { METHOD_NAMES, type Method } from '../../src/http/method.js'

const NOW = Date.UTC(2026, 10, 21, 12)
/** Not a whole second, like most file times. */
const MODIFIED = Date.UTC(2026, 10, 1) + 567
const SECOND = 1000

const CURRENT: Validators = { etag: { weak: false, opaque: 'a' }, lastModifiedMs: MODIFIED }
const WEAK: Validators = { etag: { weak: true, opaque: 'a' }, lastModifiedMs: MODIFIED }
const BARE: Validators = { etag: undefined, lastModifiedMs: undefined }

const AT = serializeHttpDate(MODIFIED)
const BEFORE = serializeHttpDate(MODIFIED - SECOND)
const AFTER = serializeHttpDate(MODIFIED + SECOND)
const FUTURE = serializeHttpDate(NOW + 365 * 86_400_000)

const READS = ['GET', 'HEAD'] as const
const WRITES = ['PUT', 'POST', 'PATCH', 'DELETE'] as const
const CONDITIONAL = [...READS, ...WRITES]

/** `Name: value` lines to fields. */
function fieldsOf(lines: readonly string[]): string[] {
  return lines.flatMap(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)])
}

function decide(method: Method, current: Validators | undefined, ...lines: string[]): Precondition {
  return decidePreconditions({ method, fields: fieldsOf(lines), current, now: NOW })
}

t.test('without preconditions a request proceeds (RFC 9110 §13.2.2)', async t => {
  for (const method of METHOD_NAMES) {
    for (const current of [CURRENT, WEAK, BARE, undefined]) {
      t.equal(decide(method, current, 'Host: a', 'ETag: "a"', `Last-Modified: ${AT}`), 'proceed')
    }
  }
})

t.test('If-Match uses the strong comparison, and fails for every method (RFC 9110 §13.1.1)', async t => {
  for (const method of CONDITIONAL) {
    for (const [value, current, wanted] of [
      ['"a"', CURRENT, 'proceed'],
      ['"b", "a"', CURRENT, 'proceed'],
      ['*', CURRENT, 'proceed'],
      ['*', BARE, 'proceed'],
      ['"b"', CURRENT, 'failed'],
      ['"A"', CURRENT, 'failed'],
      ['W/"a"', CURRENT, 'failed'],
      ['"a"', WEAK, 'failed'],
      ['W/"a"', WEAK, 'failed'],
      ['*', WEAK, 'proceed'],
      ['"a"', BARE, 'failed'],
      ['', CURRENT, 'failed'],
    ] as const) {
      t.equal(decide(method, current, `If-Match: ${value}`), wanted, `${method} ${value}`)
    }
    t.equal(decide(method, CURRENT, 'If-Match: "b"', 'if-match: "a"'), 'proceed', 'two lines are one list')
  }
})

t.test('a malformed If-Match matches nothing (RFC 9110 §13.1.1)', async t => {
  for (const method of CONDITIONAL) {
    for (const value of ['a', '"a" "b"', '*, "a"', '"a", *', '"a", b', 'w/"a"']) {
      t.equal(decide(method, CURRENT, `If-Match: ${value}`), 'failed', `${method} ${value}`)
    }
  }
})

t.test('without a representation If-Match is false, also with * (RFC 9110 §13.1.1)', async t => {
  for (const method of ['PUT', 'POST', 'PATCH'] as const) {
    for (const value of ['*', '"a"', '']) t.equal(decide(method, undefined, `If-Match: ${value}`), 'failed')
  }
})

t.test(
  'If-None-Match uses the weak comparison: 304 for reads, 412 for other methods (RFC 9110 §13.1.2)',
  async t => {
    for (const [value, current, holds] of [
      ['"a"', CURRENT, false],
      ['W/"a"', CURRENT, false],
      ['"a"', WEAK, false],
      ['W/"a"', WEAK, false],
      ['"b", W/"a"', CURRENT, false],
      ['*', CURRENT, false],
      ['*', BARE, false],
      ['"b"', CURRENT, true],
      ['"A"', CURRENT, true],
      ['"a"', BARE, true],
      ['', CURRENT, true],
    ] as const) {
      const line = `If-None-Match: ${value}`
      for (const method of READS)
        t.equal(decide(method, current, line), holds ? 'proceed' : 'not_modified', line)
      for (const method of WRITES) t.equal(decide(method, current, line), holds ? 'proceed' : 'failed', line)
    }
  },
)

t.test('If-None-Match: * creates and never replaces (RFC 9110 §13.1.2)', async t => {
  for (const method of ['PUT', 'POST', 'PATCH'] as const) {
    t.equal(decide(method, undefined, 'If-None-Match: *'), 'proceed')
    t.equal(decide(method, undefined, 'If-None-Match: "a"'), 'proceed')
    t.equal(decide(method, BARE, 'If-None-Match: *'), 'failed')
  }
})

t.test(
  'a malformed If-None-Match is ignored for reads and fails for other methods (RFC 9110 §13.1.2)',
  async t => {
    for (const value of ['a', '"a" "b"', '*, "b"', '*, *', '"b", c']) {
      const line = `If-None-Match: ${value}`
      for (const method of READS) {
        t.equal(decide(method, CURRENT, line), 'proceed', line)
        t.equal(
          decide(method, CURRENT, line, `If-Modified-Since: ${AT}`),
          'proceed',
          'and what it overrules is',
        )
      }
      for (const method of WRITES) t.equal(decide(method, CURRENT, line), 'failed', line)
      t.equal(decide('PUT', undefined, line), 'failed')
    }
  },
)

t.test('If-Modified-Since applies to GET and HEAD, in whole seconds (RFC 9110 §13.1.3)', async t => {
  for (const [date, wanted] of [
    [BEFORE, 'proceed'],
    [AT, 'not_modified'],
    [AFTER, 'not_modified'],
    [FUTURE, 'not_modified'],
    ['Sunday, 01-Nov-26 00:00:00 GMT', 'not_modified'],
    ['Sun Nov  1 00:00:00 2026', 'not_modified'],
  ] as const) {
    for (const method of READS) t.equal(decide(method, CURRENT, `If-Modified-Since: ${date}`), wanted, date)
    for (const method of WRITES)
      t.equal(decide(method, CURRENT, `If-Modified-Since: ${date}`), 'proceed', date)
  }
})

t.test('If-Unmodified-Since applies to every method, in whole seconds (RFC 9110 §13.1.4)', async t => {
  for (const [date, wanted] of [
    [BEFORE, 'failed'],
    [AT, 'proceed'],
    [AFTER, 'proceed'],
    [FUTURE, 'proceed'],
    ['Saturday, 31-Oct-26 23:59:59 GMT', 'failed'],
    ['Sat Oct 31 23:59:59 2026', 'failed'],
  ] as const) {
    for (const method of CONDITIONAL)
      t.equal(decide(method, CURRENT, `If-Unmodified-Since: ${date}`), wanted, date)
  }
})

t.test(
  'a date that is invalid, repeated or without a date to compare with is ignored (RFC 9110 §13.1.3, §13.1.4)',
  async t => {
    for (const method of CONDITIONAL) {
      for (const date of [
        '',
        '0',
        'never',
        `${AT}, ${AT}`,
        AT.replace('GMT', 'UTC'),
        AT.toLowerCase(),
        'Sun, 31 Feb 2027 00:00:00 GMT',
      ]) {
        t.equal(decide(method, CURRENT, `If-Modified-Since: ${date}`), 'proceed', date)
        t.equal(decide(method, CURRENT, `If-Unmodified-Since: ${date}`), 'proceed', date)
      }
      t.equal(decide(method, CURRENT, `If-Modified-Since: ${AT}`, `If-Modified-Since: ${AT}`), 'proceed')
      t.equal(
        decide(method, CURRENT, `If-Unmodified-Since: ${BEFORE}`, `If-Unmodified-Since: ${BEFORE}`),
        'proceed',
      )
      for (const current of [BARE, undefined]) {
        t.equal(decide(method, current, `If-Modified-Since: ${FUTURE}`), 'proceed')
        t.equal(decide(method, current, `If-Unmodified-Since: ${BEFORE}`), 'proceed')
      }
    }
  },
)

t.test('the order of precedence decides between fields that disagree (RFC 9110 §13.2.2)', async t => {
  for (const [method, lines, wanted] of [
    // If-Match makes If-Unmodified-Since irrelevant.
    ['PUT', ['If-Match: "a"', `If-Unmodified-Since: ${BEFORE}`], 'proceed'],
    ['PUT', ['If-Match: "b"', `If-Unmodified-Since: ${AT}`], 'failed'],
    ['GET', ['If-Match: "a"', `If-Unmodified-Since: ${BEFORE}`], 'proceed'],
    // If-None-Match makes If-Modified-Since irrelevant.
    ['GET', ['If-None-Match: "b"', `If-Modified-Since: ${AT}`], 'proceed'],
    ['GET', ['If-None-Match: "a"', `If-Modified-Since: ${BEFORE}`], 'not_modified'],
    // 412 comes before 304.
    ['GET', ['If-None-Match: "a"', 'If-Match: "b"'], 'failed'],
    ['HEAD', [`If-Modified-Since: ${AT}`, `If-Unmodified-Since: ${BEFORE}`], 'failed'],
    // The first pair holds, so the second is looked at.
    ['GET', ['If-Match: "a"', 'If-None-Match: "a"'], 'not_modified'],
    ['GET', ['If-Match: "a"', `If-Modified-Since: ${AT}`], 'not_modified'],
    ['GET', [`If-Unmodified-Since: ${AT}`, `If-Modified-Since: ${AT}`], 'not_modified'],
    ['GET', [`If-Unmodified-Since: ${AT}`, 'If-None-Match: "a"'], 'not_modified'],
    ['PUT', ['If-Match: "a"', 'If-None-Match: "a"'], 'failed'],
    ['PUT', [`If-Unmodified-Since: ${AT}`, 'If-None-Match: *'], 'failed'],
    ['PUT', ['If-Match: "a"', 'If-None-Match: "b"', `If-Modified-Since: ${AT}`], 'proceed'],
  ] as const) {
    t.equal(decide(method, CURRENT, ...lines), wanted, `${method} ${lines.join(', ')}`)
    t.equal(decide(method, CURRENT, ...[...lines].reverse()), wanted, 'whatever the order of the lines')
  }
})

t.test('methods without a representation ignore preconditions (RFC 9110 §13.2.1)', async t => {
  const lines = [
    'If-Match: "b"',
    'If-None-Match: *',
    `If-Unmodified-Since: ${BEFORE}`,
    `If-Modified-Since: ${AT}`,
  ]
  for (const method of ['CONNECT', 'OPTIONS', 'TRACE'] as const) {
    t.equal(decide(method, CURRENT, ...lines), 'proceed', method)
    t.equal(decide(method, undefined, ...lines), 'proceed', method)
  }
})

t.test('preconditions do not replace 404 (RFC 9110 §13.2.1)', async t => {
  for (const method of ['GET', 'HEAD', 'DELETE'] as const) {
    for (const line of [
      'If-Match: *',
      'If-Match: "a"',
      'If-None-Match: x',
      `If-Unmodified-Since: ${BEFORE}`,
    ]) {
      t.equal(decide(method, undefined, line), 'proceed', `${method} ${line}`)
    }
  }
})

t.test('whatever the fields contain, 304 is only for reads, and nothing throws', async () => {
  const name = fc.constantFrom('If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since')
  const value = fc.oneof(fc.constantFrom('*', '"a"', 'W/"a"', '"b"', AT, BEFORE, AFTER, ''), fc.string())
  const current = fc.constantFrom(CURRENT, WEAK, BARE, undefined)
  fc.assert(
    fc.property(
      fc.constantFrom(...METHOD_NAMES),
      fc.array(fc.tuple(name, value), { maxLength: 5 }),
      current,
      (method, pairs, validators) => {
        const fields = pairs.flat()
        const result = decidePreconditions({ method, fields, current: validators, now: NOW })
        if (result === 'not_modified')
          return (method === 'GET' || method === 'HEAD') && validators !== undefined
        return result === 'proceed' || result === 'failed'
      },
    ),
  )
})
