import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemNames } from '../../src/dns/system-names.js'

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

t.test('asks for every name as an absolute one, which no search domain is added to', async t => {
  const { source, asked } = namesOf(t, '', 'search corp.test\noptions ndots:5\n')
  t.strictSame(await source.lookup('allowed.example'), { addresses: ['192.0.2.1'], ttlMs: undefined })
  await source.lookup('db.')
  t.same(asked, ['allowed.example.', 'db.'])
  t.equal(source.completions?.('allowed.example'), undefined)
  t.notOk(source.endsAtAbort)
  source.close()
})

t.test('completes a single label by the search domains of resolv.conf, as they are now', async t => {
  const { source, folder } = namesOf(t, '', 'search corp.test\n')
  t.same(source.completions?.('db'), ['db.corp.test', 'db.'])
  writeFileSync(join(folder, 'resolv.conf'), 'search other.test corp.test\noptions ndots:0\n')
  t.same(source.completions?.('db'), ['db.', 'db.other.test', 'db.corp.test'])
})

t.test('knows the names of /etc/hosts, with dots and without, and completes none of them', async t => {
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

t.test('by default what the system has is read, and asked', async t => {
  t.ok(systemNames().known?.('localhost')?.includes('127.0.0.1'))
})
