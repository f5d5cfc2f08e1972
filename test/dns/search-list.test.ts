import t from 'tap'
import { completionsOf, parseSearchList } from '../../src/dns/search-list.js'

const none = { domains: [], ndots: 1 }

t.test('says what resolv.conf says (resolv.conf(5))', async t => {
  for (const [text, expected] of [
    ['', none],
    ['nameserver 10.0.0.2\n', none],
    ['search corp.test  Other.TEST. corp.test\n', { domains: ['corp.test', 'other.test'], ndots: 1 }],
    ['search\tcorp.test', { domains: ['corp.test'], ndots: 1 }],
    ['domain corp.test other.test\n', { domains: ['corp.test'], ndots: 1 }],
    ['domain a.test\nsearch b.test c.test\n', { domains: ['b.test', 'c.test'], ndots: 1 }],
    ['search b.test c.test\ndomain a.test\n', { domains: ['a.test'], ndots: 1 }],
    ['search .\n', none],
    ['# search a.test\n; search b.test\n', none],
    ['options edns0 ndots:5 trust-ad\n', { domains: [], ndots: 5 }],
    ['options ndots:0\n', { domains: [], ndots: 0 }],
    ['options ndots:16\n', { domains: [], ndots: 15 }],
    ['options ndots:x\nsearching a.test\n', none],
  ] as const) {
    t.same(parseSearchList(text, 'host'), expected, JSON.stringify(text))
  }
})

t.test('is the domain of the host where nothing else is said', async t => {
  t.same(parseSearchList('options ndots:2\n', 'host.corp.test'), { domains: ['corp.test'], ndots: 2 })
  t.same(parseSearchList('search a.test\n', 'host.corp.test').domains, ['a.test'])
  t.same(parseSearchList('search .\n', 'host.corp.test').domains, [])
})

t.test('the environment wins over the file', async t => {
  const text = 'search a.test\noptions ndots:2\n'
  t.same(parseSearchList(text, 'host', { LOCALDOMAIN: 'b.test c.test', RES_OPTIONS: 'ndots:3' }), {
    domains: ['b.test', 'c.test'],
    ndots: 3,
  })
  t.same(parseSearchList(text, 'host', { LOCALDOMAIN: '' }), { domains: [], ndots: 2 })
})

t.test(
  'a single label is completed by each domain, and asked for by itself last, or first with ndots:0',
  async t => {
    const domains = ['a.test', 'b.test']
    t.same(completionsOf('db', { domains, ndots: 1 }), ['db.a.test', 'db.b.test', 'db.'])
    t.same(completionsOf('db', { domains, ndots: 5 }), ['db.a.test', 'db.b.test', 'db.'])
    t.same(completionsOf('db', { domains, ndots: 0 }), ['db.', 'db.a.test', 'db.b.test'])
    t.same(completionsOf('db', none), ['db.'])
  },
)
