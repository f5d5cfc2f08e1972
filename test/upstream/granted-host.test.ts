import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { resolveGranted } from '../../src/upstream/granted-host.js'
import { DnsCache } from '../../src/dns/dns-cache.js'
import type { NameSource } from '../../src/dns/lookup.js'
import { createResolver } from '../../src/dns/resolve.js'
import { wideQueue } from '../kit/fakes/wide-queue.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { grantOf, policy, request } from '../kit/fakes/policy.js'

const never = { signal: new AbortController().signal }
const DENIED = 'secret.test'
const POLICY = policy({
  rules: { own: { hosts: ['db', '*.test'], addresses: ['10.0.0.0/8'] } },
  denyHosts: [`*.${DENIED}`],
})
const granted = (host: string) => grantOf(POLICY.admit(request(`CONNECT ${host}:443`)))
const notFound = () => Object.assign(new Error('not found'), { code: 'ENOTFOUND' })

type Answers = Readonly<Record<string, readonly string[] | Error>>

/** A resolver with these search domains, and its queries; names without an answer here are not found. */
function resolverOf(
  domains: readonly string[],
  answers: Answers,
  lookup?: NameSource['lookup'],
  timeoutMs = 1000,
) {
  const asked: string[] = []
  const source: NameSource = {
    endsAtAbort: false,
    completions: name => (name.includes('.') ? undefined : [...domains.map(d => `${name}.${d}`), `${name}.`]),
    lookup:
      lookup ??
      (async name => {
        asked.push(name)
        const answer = answers[name] ?? notFound()
        if (answer instanceof Error) throw answer
        return { addresses: answer, ttlMs: undefined }
      }),
    close: () => {},
  }
  const times = { timeoutMs, minTtlMs: 1000, maxTtlMs: 1000, negativeTtlMs: 0 }
  const cache = new DnsCache({ ...times, source, queue: wideQueue(), now: () => 0 })
  return { resolver: createResolver(cache, timeoutMs, source), asked }
}

t.test('the first completion with an address is used, and the grant names it', async t => {
  const { resolver, asked } = resolverOf(['a.test', 'b.test', 'c.test'], {
    'db.a.test': [],
    'db.b.test': ['10.0.0.1'],
    'db.c.test': ['10.0.0.2'],
  })
  t.match(await resolveGranted(granted('db'), POLICY, resolver, never), {
    name: 'db.b.test',
    grant: { host: { name: 'db' }, completed: 'db.b.test' },
    addresses: ['10.0.0.1'],
  })
  t.same(asked, ['db.a.test', 'db.b.test'])
  t.equal(
    resolver.cached('db'),
    undefined,
    'and nothing is kept under the label, which may be completed otherwise',
  )
})

t.test('the label without a search domain is what was granted', async t => {
  const grant = granted('db')
  const { resolver } = resolverOf(['a.test'], { 'db.': ['10.0.0.1'] })
  const found = await resolveGranted(grant, POLICY, resolver, never)
  t.match(found, { name: 'db.', addresses: ['10.0.0.1'] })
  t.equal('grant' in found && found.grant, grant)
})

t.test('no query is sent for a completion that policy refuses, but for the next one', async t => {
  const { resolver, asked } = resolverOf([DENIED, 'a.test'], {
    [`db.${DENIED}`]: ['10.0.0.9'],
    'db.a.test': ['10.0.0.1'],
  })
  t.match(await resolveGranted(granted('db'), POLICY, resolver, never), { name: 'db.a.test' })
  t.same(asked, ['db.a.test'])
})

t.test('if no other completion has an address, the result is the denial', async t => {
  const { resolver, asked } = resolverOf([DENIED], { [`db.${DENIED}`]: ['10.0.0.9'] })
  t.match(await resolveGranted(granted('db'), POLICY, resolver, never), {
    kind: 'deny',
    reason: 'deny_host',
    message: 'deny.hosts refuses db:443',
  })
  t.same(asked, ['db.'])
})

t.test(
  'no completion with an address is 502; a failure ends the search before further completions (RFC 9209 §2.3.2)',
  async t => {
    await t.rejects(resolveGranted(granted('db'), POLICY, resolverOf(['a.test'], {}).resolver, never), {
      type: 'dns_error',
      message: 'no address found for db',
      cause: { code: 'ENOTFOUND' },
    })
    const failing = resolverOf(['a.test'], {
      'db.a.test': Object.assign(new Error('failed'), { code: 'EAI_AGAIN' }),
      'db.': ['10.0.0.1'],
    })
    await t.rejects(resolveGranted(granted('db'), POLICY, failing.resolver, never), {
      type: 'dns_error',
      message: 'DNS failed for db',
    })
    t.same(failing.asked, ['db.a.test'])
  },
)

t.test('all completions together have one time limit (RFC 9209 §2.3.1)', async t => {
  const timers = pauseTimers(t, 4321)
  const silent = () => new Promise<never>(() => {})
  const { resolver } = resolverOf(
    ['a.test'],
    {},
    async name => (name === 'db.a.test' ? Promise.reject(notFound()) : silent()),
    4321,
  )
  const waiting = resolveGranted(granted('db'), POLICY, resolver, never)
  await timers.fire()
  await t.rejects(waiting, { type: 'dns_timeout', message: 'DNS timed out for db' })
  t.equal(timers.set, 1)
})

t.test('a name with a dot is not completed', async t => {
  const { resolver, asked } = resolverOf(['a.test'], { 'x.test': ['10.0.0.1'] })
  const grant = granted('x.test')
  t.same(await resolveGranted(grant, POLICY, resolver, never), {
    name: 'x.test',
    grant,
    addresses: ['10.0.0.1'],
  })
  await t.rejects(resolveGranted(granted('y.test'), POLICY, resolver, never), ProxyError)
  t.same(asked, ['x.test', 'y.test'])
})
