import fc from 'fast-check'
import t from 'tap'
import { parseTargeted } from '../../src/cache/targeted.js'
import { runs } from '../kit/runs.js'
import { anyValue } from './arbitrary.js'
import { stored } from './messages.js'

t.test('a targeted field replaces Cache-Control and Expires (RFC 9213 §2.1, §2.2)', async t => {
  for (const [fields, wanted] of [
    [['CDN-Cache-Control', 'max-age=60'], 60],
    [['CDN-Cache-Control', 'max-age=60', 'Cache-Control', 'max-age=1'], 60],
    [['Cache-Control', 's-maxage=3600', 'CDN-Cache-Control', 'max-age=1'], 1],
    [['Cache-Control', 'no-store', 'CDN-Cache-Control', 'max-age=60'], 60],
    [['CDN-Cache-Control', 'max-age=60', 'Expires', '0'], 60],
    [['CDN-Cache-Control', 'max-age=60', 'CDN-Cache-Control', 'public'], 60],
    [['CDN-Cache-Control', 'max-age=60;x=1'], 60],
    [['CDN-Cache-Control', 'max-age=1, max-age=60'], 60],
    [['CDN-Cache-Control', 'public', 'Cache-Control', 'max-age=60'], 0],
    // These are ignored as a whole: they are empty, or not a dictionary.
    [['CDN-Cache-Control', '', 'Cache-Control', 'max-age=60'], 60],
    [['CDN-Cache-Control', 'max-age=1,', 'Cache-Control', 'max-age=60'], 60],
    [['CDN-Cache-Control', 'Max-Age=1', 'Cache-Control', 'max-age=60'], 60],
    [['CDN-Cache-Control', 'max-age=1 &', 'Cache-Control', 'max-age=60'], 60],
    [['CDN-Cache-Control', 'max-age=9999999999999999', 'Cache-Control', 'max-age=60'], 60],
    [['Surrogate-Control', 'max-age=60'], 0],
  ] as const) {
    t.equal(stored(fields).lifetimeMs, wanted * 1000, fields.join(' | '))
  }
  t.notOk(stored(['Cache-Control', 'no-cache', 'CDN-Cache-Control', 'max-age=60']).noCache)
  t.ok(stored(['Cache-Control', 'max-age=60', 'CDN-Cache-Control', 'no-cache']).noCache)
})

t.test('only the member is ignored if its type does not fit its directive (RFC 9213 §2.1)', async t => {
  for (const [value, name] of [
    ['max-age="60", immutable', 'max-age'],
    ['max-age=60.0, immutable', 'max-age'],
    ['max-age=60.5, immutable', 'max-age'],
    ['max-age, immutable', 'max-age'],
    ['max-age=b, immutable', 'max-age'],
    ['max-age=(60), immutable', 'max-age'],
    ['no-store=?0, immutable', 'no-store'],
    ['no-store=1, immutable', 'no-store'],
    ['public="x", immutable', 'public'],
    ['private=?0, immutable', 'private'],
    ['private=1, immutable', 'private'],
  ] as const) {
    const directives = parseTargeted([value])
    t.notOk(directives?.has(name), value)
    t.ok(directives?.has('immutable'), value)
  }
  t.equal(parseTargeted(['max-age=-1'])?.seconds('max-age'), 'invalid')
  t.same(parseTargeted(['private="a, b"'])?.fieldNames('private'), ['a', 'b'])
  t.same(parseTargeted(['no-cache=a'])?.fieldNames('no-cache'), ['a'])
  t.equal(parseTargeted(['no-cache'])?.fieldNames('no-cache'), 'all')
})

t.test('without a field line there are no directives', async t => {
  t.equal(parseTargeted([]), undefined)
})

t.test('no bytes make parsing fail', async () => {
  fc.assert(
    fc.property(fc.array(anyValue), lines => {
      parseTargeted(lines)?.seconds('max-age')
    }),
    { numRuns: runs(2000) },
  )
})
