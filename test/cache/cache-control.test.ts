import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import t from 'tap'
import { Directives, parseDirectives } from '../../src/cache/cache-control.js'
import { runs } from '../kit/runs.js'
import { anyValue } from './arbitrary.js'

t.test(
  'names may be in any case, in several lines, with white space around them (RFC 9111 §5.2)',
  async t => {
    for (const values of [
      ['no-store'],
      ['No-StOrE'],
      [' no-store '],
      ['a, no-store'],
      ['\tno-store\t,a'],
      [',,no-store,,'],
      ['a', 'no-store'],
      ['a', '', 'b,no-store'],
      ['no-store=1'],
      ['no-store="1"'],
      ['no-store='],
      ['a="b", no-store'],
      ['a="b"c, no-store'],
    ]) {
      t.ok(parseDirectives(values).has('no-store'), values.join(' | '))
    }
    for (const values of [
      [],
      [''],
      ['no-stor'],
      ['no-stores'],
      ['a=no-store'],
      ['a="no-store"'],
      ['a="b, no-store"'],
      ['a="b, no-store, c"'],
      ['a="\\", no-store"'],
      ['no store'],
    ]) {
      t.notOk(parseDirectives(values).has('no-store'), values.join(' | '))
    }
  },
)

t.test(
  'an argument is a token or a quoted string, and nothing in quotes is a directive (RFC 9111 §5.2)',
  async t => {
    for (const [value, wanted] of [
      ['max-age=60', 60],
      ['MAX-AGE=60', 60],
      ['max-age="60"', 60],
      ['max-age="\\6\\0"', 60],
      ['max-age=60 ', 60],
      ['x="max-age=3600", max-age=1', 1],
      ['max-age=1, x="max-age=3600"', 1],
      ['x="a, max-age=3600", max-age="1"', 1],
      ['x="a\\", max-age=3600", max-age=1', 1],
      ['x="max-age=3600"', undefined],
      ['x-max-age=3600', undefined],
      ['max-age-x=3600', undefined],
      ['=60', undefined],
      ['"max-age=60"', undefined],
    ] as const) {
      t.equal(parseDirectives([value]).seconds('max-age'), wanted, value)
    }
  },
)

t.test('an argument that is not a number of seconds is invalid, not absent (RFC 9111 §4.2.1)', async t => {
  for (const value of [
    'max-age',
    'max-age=',
    'max-age=""',
    'max-age= 60',
    'max-age=\t60',
    'max-age =60',
    'max-age\t=60',
    'max-age = 60',
    'max-age=" 60"',
    "max-age='60'",
    'max-age=-1',
    'max-age=+1',
    'max-age=60.0',
    'max-age=6e1',
    'max-age=0x1',
    'max-age=60a',
    'max-age=a60',
    'max-age=60 60',
    'max-age=60;a',
    'max-age="60"a',
    'max-age="60',
    'max-age=60, max-age',
    'max-age=a, max-age=60',
  ]) {
    t.equal(parseDirectives([value]).seconds('max-age'), 'invalid', value)
  }
})

t.test('seconds are at most 2^31, and the smallest of several counts (RFC 9111 §1.2.2)', async t => {
  for (const [values, wanted] of [
    [['max-age=0'], 0],
    [['max-age=000060'], 60],
    [['max-age=2147483647'], 2147483647],
    [['max-age=2147483648'], 2147483648],
    [['max-age=2147483649'], 2147483648],
    [['max-age=99999999999'], 2147483648],
    [[`max-age=${'9'.repeat(400)}`], 2147483648],
    [['max-age=1, max-age=1800'], 1],
    [['max-age=1800, max-age=1'], 1],
    [['max-age=1800', 'max-age=1'], 1],
    [['max-age=1', 'max-age=1800'], 1],
  ] as const) {
    t.equal(parseDirectives(values).seconds('max-age'), wanted, values.join(' | '))
  }
})

t.test('private and no-cache name fields, or withhold everything (RFC 9111 §5.2.2.4, §5.2.2.7)', async t => {
  for (const [value, wanted] of [
    ['a', undefined],
    ['private="a"', ['a']],
    ['private="A, b"', ['a', 'b']],
    ['private="a,,b"', ['a', 'b']],
    ['private=a', ['a']],
    ['private="a", private="b"', ['a', 'b']],
    ['private', 'all'],
    ['private="a", private', 'all'],
    ['private, private="a"', 'all'],
    ['private=', 'all'],
    ['private=""', 'all'],
    ['private=","', 'all'],
    ['private="a b"', 'all'],
    ['private="a', 'all'],
    ['private= a', 'all'],
    ['private="a"b', 'all'],
    ['private="vary"', 'all'],
    ['private="a, Cache-Control"', 'all'],
    ['private="content-encoding"', 'all'],
    ['private="set-cookie"', ['set-cookie']],
  ] as const) {
    t.same(parseDirectives([value]).fieldNames('private'), wanted, value)
    const other = value.replaceAll('private', 'no-cache')
    t.same(parseDirectives([other]).fieldNames('no-cache'), wanted, other)
  }
})

t.test('directives after an unclosed quote can forbid, but not allow anything', async t => {
  const directives = parseDirectives([
    'x="a, no-store, private, max-age=60, public, s-maxage="5"',
    'min-fresh=1',
  ])
  t.ok(directives.has('no-store'))
  t.equal(directives.fieldNames('private'), 'all')
  t.equal(directives.seconds('max-age'), 'invalid')
  t.equal(directives.seconds('s-maxage'), 'invalid')
  t.notOk(directives.hasWithoutArgument('public'))
  t.equal(directives.seconds('min-fresh'), 1)
  t.notOk(parseDirectives(['x="public']).has('public'))
})

t.test('a directive without an argument is distinguished from one with an argument', async t => {
  for (const [value, wanted] of [
    ['public', true],
    ['public=a', false],
    ['public=', false],
    ['public=a, public', true],
    ['a', false],
  ] as const) {
    t.equal(parseDirectives([value]).hasWithoutArgument('public'), wanted, value)
  }
})

t.test('no bytes make parsing fail, and a further line never relaxes anything', async t => {
  const names = ['no-store', 'private', 'no-cache', 'must-revalidate', 'public', 'max-age'] as const
  fc.assert(
    fc.property(fc.array(anyValue), fc.array(anyValue), (lines, more) => {
      const [some, all] = [parseDirectives(lines), parseDirectives([...lines, ...more])]
      for (const name of names) if (some.has(name) && !all.has(name)) return false
      const [before, after] = [some.seconds('max-age'), all.seconds('max-age')]
      if (before === 'invalid') return after === 'invalid'
      return before === undefined || after === 'invalid' || Number(after) <= before
    }),
    { numRuns: runs(2000) },
  )
  t.notOk(Directives.NONE.has('max-age'))
})

t.test('a list of many directives costs no more than its length', async t => {
  const directives = parseDirectives([
    'max-age="\\'.repeat(20000),
    'a=",'.repeat(20000),
    'no-store,'.repeat(20000),
  ])
  t.ok(directives.has('no-store'))
})

t.test('the memory for any directives is proportional to their bytes', async t => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heap = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const names = Array.from({ length: 3000 }, (_, i) => i.toString(36))
  for (const [what, line] of [
    ['unknown names', names.join(',')],
    ['unknown names with arguments', names.map(name => `${name}=${name}`).join(',')],
    ['one name over and over', 'max-age=1,'.repeat(1400)],
    ['names of fields', `private="${names.join(',')}"`],
    ['a name of a field each', names.map(name => `no-cache=${name}`).join(',')],
  ] as const) {
    const lines = Array.from({ length: 20 }, (_, i) => Buffer.from(`${line},x${i}`).toString('latin1'))
    parseDirectives([line])
    const before = heap()
    const kept = lines.map(text => parseDirectives([text]))
    const each = (heap() - before) / kept.length
    t.ok(each < 2 * line.length + 4096, `${what}: ${each} bytes for ${line.length}`)
  }
})
