import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  completionsOf,
  parseHostsFile,
  parseSearchList,
  readWhenChanged,
  systemNames,
} from '../../src/dns/system-names.js'

/** The system's names, with its files and its resolver. */
function namesOf(t: Test, hosts: string, resolvConf: string) {
  const folder = t.testdir({ hosts, 'resolv.conf': resolvConf })
  const asked: string[] = []
  const source = systemNames({
    lookup: async name => {
      asked.push(name)
      return ['192.0.2.1']
    },
    hostsFile: join(folder, 'hosts'),
    resolvConf: join(folder, 'resolv.conf'),
    hostname: () => 'host',
    environment: {},
  })
  return { source, asked, folder }
}

t.test('looks up every name as an absolute one, to which no search domain is added', async t => {
  const { source, asked } = namesOf(t, '', 'search corp.test\noptions ndots:5\n')
  t.strictSame(await source.lookup('allowed.example'), { addresses: ['192.0.2.1'], ttlMs: undefined })
  await source.lookup('db.')
  t.same(asked, ['allowed.example.', 'db.'])
  t.equal(source.completions?.('allowed.example'), undefined)
  t.notOk(source.endsAtAbort)
  source.close()
})

t.test('completes a single label with the current search domains of resolv.conf', async t => {
  const { source, folder } = namesOf(t, '', 'search corp.test\n')
  t.same(source.completions?.('db'), ['db.corp.test', 'db.'])
  writeFileSync(join(folder, 'resolv.conf'), 'search other.test corp.test\noptions ndots:0\n')
  t.same(source.completions?.('db'), ['db.', 'db.other.test', 'db.corp.test'])
})

t.test('knows the names of /etc/hosts, with and without dots, and completes none of them', async t => {
  const hosts = '10.0.0.1 db\n10.0.0.2 api.corp.test\n'
  const { source, folder, asked } = namesOf(t, hosts, 'search corp.test\n')
  t.same(source.known?.('db'), ['10.0.0.1'])
  t.same(source.known?.('api.corp.test'), ['10.0.0.2'])
  t.equal(source.known?.('db.corp.test'), undefined)
  t.equal(source.completions?.('db'), undefined)
  t.same(source.completions?.('api'), ['api.corp.test', 'api.'])
  writeFileSync(join(folder, 'hosts'), '')
  t.equal(source.known?.('db'), undefined)
  t.same(source.completions?.('db'), ['db.corp.test', 'db.'])
  t.same(asked, [])
})

t.test('localhost and invalid are never completed (RFC 6761 §6.3, §6.4)', async t => {
  const { source } = namesOf(t, '', 'search corp.test\n')
  for (const name of ['localhost', 'invalid']) t.equal(source.completions?.(name), undefined, name)
})

t.test('by default the files of the system are read, and its resolver is asked', async t => {
  t.ok(systemNames().known?.('localhost')?.includes('127.0.0.1'))
})

const none = { domains: [], ndots: 1 }

t.test('returns the search list of resolv.conf (resolv.conf(5))', async t => {
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

t.test('uses the domain of the host by default', async t => {
  t.same(parseSearchList('options ndots:2\n', 'host.corp.test'), { domains: ['corp.test'], ndots: 2 })
  t.same(parseSearchList('search a.test\n', 'host.corp.test').domains, ['a.test'])
  t.same(parseSearchList('search .\n', 'host.corp.test').domains, [])
})

t.test('the environment takes precedence over the file', async t => {
  const text = 'search a.test\noptions ndots:2\n'
  t.same(parseSearchList(text, 'host', { LOCALDOMAIN: 'b.test c.test', RES_OPTIONS: 'ndots:3' }), {
    domains: ['b.test', 'c.test'],
    ndots: 3,
  })
  t.same(parseSearchList(text, 'host', { LOCALDOMAIN: '' }), { domains: [], ndots: 2 })
})

t.test(
  'a single label is completed with each domain, and looked up itself last, or first with ndots:0',
  async t => {
    const domains = ['a.test', 'b.test']
    t.same(completionsOf('db', { domains, ndots: 1 }), ['db.a.test', 'db.b.test', 'db.'])
    t.same(completionsOf('db', { domains, ndots: 5 }), ['db.a.test', 'db.b.test', 'db.'])
    t.same(completionsOf('db', { domains, ndots: 0 }), ['db.', 'db.a.test', 'db.b.test'])
    t.same(completionsOf('db', none), ['db.'])
  },
)

t.test('has the addresses of each name, in the order of the lines (hosts(5))', async t => {
  const hosts = parseHostsFile(`# comment
127.0.0.1\tlocalhost
::1     localhost ip6-localhost   # loopback
10.0.0.1 DB.Corp.Test db
10.0.0.2 db#second
10.0.0.2 db
  10.0.0.3   indented\r
#10.0.0.4 db
`)
  t.same(
    [...hosts],
    [
      ['localhost', ['127.0.0.1', '::1']],
      ['ip6-localhost', ['::1']],
      ['db.corp.test', ['10.0.0.1']],
      ['db', ['10.0.0.1', '10.0.0.2']],
      ['indented', ['10.0.0.3']],
    ],
  )
})

t.test('omits everything that is not a plain address', async t => {
  t.same([...parseHostsFile('fe80::1%lo0 localhost\nname name\n127.1 short\n\n10.0.0.1\n')], [])
})

t.test('reads a file again once it has changed, and not before', async t => {
  const path = join(t.testdir({ file: 'one' }), 'file')
  let parsed = 0
  const read = readWhenChanged(path, text => `${++parsed} ${text}`)
  t.same([read(), read()], ['1 one', '1 one'])
  writeFileSync(path, 'three')
  t.same([read(), read()], ['2 three', '2 three'])
  // As editors and container runtimes replace it.
  writeFileSync(`${path}.new`, 'other')
  renameSync(`${path}.new`, path)
  t.equal(read(), '3 other')
  rmSync(path)
  t.same([read(), read()], ['4 ', '4 '], 'one that is gone is empty')
  writeFileSync(path, 'back')
  t.equal(read(), '5 back')
})

t.test('a path that is not a file, or cannot be read, is empty', async t => {
  t.equal(readWhenChanged(t.testdir({}), text => text)(), '')
  t.equal(readWhenChanged('/dev/null', text => text)(), '')
})
