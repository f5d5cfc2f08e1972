import t from 'tap'
import { parseRedisUrl } from '../../src/config/redis-url.js'

const PLAIN = {
  tls: false,
  host: '10.0.0.7',
  port: 6379,
  path: undefined,
  username: undefined,
  password: undefined,
  database: 0,
}

t.test('URLs of Redis', async t => {
  t.same(parseRedisUrl('redis://10.0.0.7'), PLAIN)
  t.same(parseRedisUrl('redis://10.0.0.7:1/'), { ...PLAIN, port: 1 })
  t.same(parseRedisUrl('rediss://10.0.0.7:6380/15'), { ...PLAIN, tls: true, port: 6380, database: 15 })
  t.same(parseRedisUrl('redis://[::1]:7'), { ...PLAIN, host: '::1', port: 7 })
  t.same(parseRedisUrl('redis://:p%40s%3As@10.0.0.7'), { ...PLAIN, password: 'p@s:s' })
  t.same(parseRedisUrl('redis://me:pass@10.0.0.7'), { ...PLAIN, username: 'me', password: 'pass' })
})

t.test('URLs of a Unix socket', async t => {
  const socket = { ...PLAIN, host: '', port: 0, path: '/run/redis.sock' }
  t.same(parseRedisUrl('unix:///run/redis.sock'), socket)
  t.same(parseRedisUrl('unix:///run/redis.sock?db=3'), { ...socket, database: 3 })
  t.same(parseRedisUrl('unix://me:p%40ss@/run/redis.sock'), { ...socket, username: 'me', password: 'p@ss' })
  t.same(parseRedisUrl('unix:///run/a%20b'), { ...socket, path: '/run/a b' })
})

t.test('what is none is refused without its credentials', async t => {
  for (const [text, clause] of [
    ['', /is no URL/],
    ['10.0.0.7:6379', /is no URL|does not begin/],
    ['http://me:s3cret@a.test', /does not begin/],
    ['redis://', /without a host/],
    ['redis:///1', /without a host/],
    ['redis://me:s3cret@a.test/x', /no number of a database/],
    ['redis://me:s3cret@a.test/1/2', /no number of a database/],
    ['redis://me:s3cret@a.test/-1', /no number of a database/],
    ['redis://a.test?db=1', /query/],
    ['redis://a.test#x', /fragment/],
    ['redis://me:s3cret%@a.test', /percent sign/],
    ['redis://me:s3cret@a.test:99999', /is no URL/],
    ['unix://', /path of a Unix socket/],
    ['unix:///', /path of a Unix socket/],
    ['unix://me:s3cret@/x?db=a', /path of a Unix socket/],
  ] as const) {
    const refused = t.throws(() => parseRedisUrl(text), RangeError, text) as Error
    t.match(refused.message, clause, text)
    t.match(refused.message, /^expected a URL such as/)
    t.notMatch(refused.message, /s3cret/)
  }
})
