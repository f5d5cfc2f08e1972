import t from 'tap'
import { FORWARDED_STYLES, withForwarded } from '../../src/http/forwarded.js'

const FROM = { address: '192.0.2.1', host: 'a.test', proto: 'http' } as const
const V6 = { address: '2001:db8::1', host: '[2001:db8::2]:80', proto: 'https' } as const
const NOBODY = { address: undefined, host: undefined, proto: 'http' } as const

t.test(
  'one hop has for, host and proto; values that are not tokens are quoted (RFC 7239 §4, §6)',
  async t => {
    const element = (from: Parameters<typeof withForwarded>[2]) => withForwarded([], 'forwarded', from)
    t.same(element(FROM), ['Forwarded', 'for=192.0.2.1;host=a.test;proto=http'])
    t.same(element(V6), ['Forwarded', 'for="[2001:db8::1]";host="[2001:db8::2]:80";proto=https'])
    t.same(element(NOBODY), ['Forwarded', 'for=unknown;proto=http'])
  },
)

t.test('the hop is appended to the received values, in one line (RFC 7239 §4)', async t => {
  t.same(withForwarded(['forwarded', 'for=a', 'A', '1', 'FORWARDED', 'for="b,c"'], 'forwarded', FROM), [
    'A',
    '1',
    'Forwarded',
    'for=a, for="b,c", for=192.0.2.1;host=a.test;proto=http',
  ])
})

t.test(
  'a malformed Forwarded field is dropped, so that it cannot absorb this hop; empty elements are valid (RFC 7239 §4, RFC 9110 §5.6.1.2)',
  async t => {
    const own = 'for=192.0.2.1;host=a.test;proto=http'
    const sent = (...values: string[]) => {
      const [name, value, ...rest] = withForwarded(
        values.flatMap(value => ['Forwarded', value]),
        'forwarded',
        FROM,
      )
      t.same([name, rest], ['Forwarded', []])
      return value
    }
    for (const value of [
      'for=6.6.6.6;proto=https, for="x',
      'for="x\\"',
      'for="x\\',
      'for=a, "',
      'for="a"b',
      'for=a;by',
      'for =a',
      'for= a',
      'for=a b',
      'for=a; by=b',
      'for=2001:db8::1',
      '=a',
      'for=',
      `${', '.repeat(2000)}"`,
      `${'a=b,'.repeat(2000)}"`,
    ]) {
      t.equal(sent(value), own, value.slice(0, 40))
      t.equal(sent('for=a', value), own, 'all lines are one value')
    }
    for (const value of [
      'for=a',
      'For="[2001:db8::1]:80";by=b;;proto=https',
      'for="a, \\" b\\\\"',
      'for=a,, for=b ,\tfor=c',
      ', for=a',
      'for="\xe9"',
      `${', '.repeat(2000)}for=a`,
    ]) {
      t.equal(sent(value), `${value}, ${own}`, value.slice(0, 40))
      t.equal(sent('for=z', value), `for=z, ${value}, ${own}`)
    }
  },
)

t.test('X-Forwarded-For is appended to; Host and Proto are replaced', async t => {
  const came = ['x-forwarded-host', 'evil', 'X-Forwarded-For', 'x', 'X-Forwarded-Proto', 'https', 'A', '1']
  t.same(withForwarded(came, 'x-forwarded-for', FROM), [
    'A',
    '1',
    'X-Forwarded-For',
    'x, 192.0.2.1',
    'X-Forwarded-Host',
    'a.test',
    'X-Forwarded-Proto',
    'http',
  ])
  t.same(withForwarded([], 'x-forwarded-for', NOBODY), [
    'X-Forwarded-For',
    'unknown',
    'X-Forwarded-Proto',
    'http',
  ])
  t.same(withForwarded([], 'x-forwarded-for', V6).slice(0, 2), ['X-Forwarded-For', '2001:db8::1'])
})

t.test('the styles include none', async t => {
  t.same(FORWARDED_STYLES, ['none', 'x-forwarded-for', 'forwarded'])
})
