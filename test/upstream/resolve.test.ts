import t from 'tap'
import { DnsCache } from '../../src/upstream/dns-cache.js'
import { type AddressLookup, untimed } from '../../src/upstream/lookup.js'
import { createResolver, type Resolver } from '../../src/upstream/resolve.js'

const never = { signal: new AbortController().signal }

/** A resolver whose clock stands still; without `minTtlMs` it keeps no answers. */
function resolverOf(lookup: AddressLookup, timeoutMs = 1000, minTtlMs = 0): Resolver {
  const times = { timeoutMs, minTtlMs, maxTtlMs: minTtlMs, negativeTtlMs: 0 }
  return createResolver(new DnsCache({ ...times, lookup: untimed(lookup).lookup, now: () => 0 }), timeoutMs)
}

function failing(code: string): AddressLookup {
  return async () => {
    throw Object.assign(new Error(`lookup ${code}`), { code })
  }
}

/** A lookup that is answered by the test. */
function held() {
  const answers: ((addresses: string[]) => void)[] = []
  const rejections: ((error: Error) => void)[] = []
  const lookup: AddressLookup = () =>
    new Promise((resolve, reject) => {
      answers.push(resolve)
      rejections.push(reject)
    })
  return { answers, rejections, lookup }
}

t.test('gives all addresses in the order of the resolver', async t => {
  const resolver = resolverOf(async () => ['192.0.2.2', '2001:db8::1', '192.0.2.1'])
  t.same(await resolver.resolve('a.test', never), ['192.0.2.2', '2001:db8::1', '192.0.2.1'])
})

t.test('a name that DNS does not know is 502, and says so (RFC 9209 §2.3.2)', async t => {
  for (const code of ['ENOTFOUND', 'ENODATA']) {
    await t.rejects(resolverOf(failing(code)).resolve('a.test', never), {
      type: 'dns_error',
      status: 502,
      message: 'no address found for a.test',
      detail: 'DNS has no address for a.test.',
      cause: { code },
    })
  }
  await t.rejects(resolverOf(async () => []).resolve('a.test', never), {
    type: 'dns_error',
    status: 502,
    message: 'no address found for a.test',
    detail: 'DNS has no address for a.test.',
  })
})

t.test('a process without file descriptors can not ask, which is no fault of DNS', async t => {
  for (const code of ['EMFILE', 'ENFILE']) {
    await t.rejects(resolverOf(failing(code)).resolve('a.test', never), {
      type: 'connection_limit_reached',
      status: 503,
      message: 'out of file descriptors: a.test',
      reason: 'file_descriptors',
      fields: ['Retry-After', '1'],
    })
  }
})

t.test('a server that fails is 502, EAI_AGAIN too (RFC 9209 §2.3.2)', async t => {
  for (const code of ['EAI_AGAIN', 'ESERVFAIL', 'ETIMEOUT', 'ECONNREFUSED', 'EREFUSED']) {
    await t.rejects(resolverOf(failing(code)).resolve('a.test', never), {
      type: 'dns_error',
      status: 502,
      message: 'DNS failed for a.test',
      detail: `The DNS server could not answer for a.test (${code}).`,
    })
  }
  const nameless: AddressLookup = async () => {
    throw new Error('no code')
  }
  await t.rejects(resolverOf(nameless).resolve('a.test', never), {
    message: /./,
    type: 'dns_error',
    status: 502,
    detail: 'The DNS server could not answer for a.test.',
  })
})

t.test(
  'a kept answer is given without waiting, and whether the client is still there is not asked',
  async t => {
    const resolver = resolverOf(async name => (name === 'none.test' ? [] : ['192.0.2.1']), 1000, 1)
    await resolver.resolve('a.test', never)
    const asker = {
      get signal(): AbortSignal {
        throw new Error('asked for the signal')
      },
    }
    t.same(await resolver.resolve('a.test', asker), ['192.0.2.1'])
    t.same(resolver.kept('a.test'), ['192.0.2.1'])
    t.equal(resolver.kept('c.test'), undefined, 'nobody has asked for it')
    await t.rejects(resolver.resolve('none.test', never), { message: /./, type: 'dns_error' })
    t.equal(resolver.kept('none.test'), undefined, 'resolve tells that it has none')
    await t.rejects(resolver.resolve('b.test', asker), { message: 'asked for the signal' })
  },
)

t.test('only our own clock makes 504 (RFC 9209 §2.3.1)', async t => {
  const { lookup, answers } = held()
  const resolver = resolverOf(lookup, 10)
  await t.rejects(resolver.resolve('a.test', never), { message: /./, type: 'dns_timeout', status: 504 })
  answers[0]?.(['192.0.2.1'])
})

t.test('a lookup that fails behind its time limit harms nobody', async t => {
  const { lookup, rejections } = held()
  await t.rejects(resolverOf(lookup, 10).resolve('a.test', never), { message: /./, type: 'dns_timeout' })
  rejections[0]?.(new Error('late'))
  await new Promise(resolve => setImmediate(resolve))
})

t.test('one that gives up takes nothing from the others', async t => {
  const { lookup, answers } = held()
  const resolver = resolverOf(lookup)
  const controller = new AbortController()
  const impatient = resolver.resolve('a.test', controller)
  const patient = resolver.resolve('a.test', never)
  const reason = new Error('gone')
  controller.abort(reason)
  await t.rejects(impatient, reason)
  answers[0]?.(['192.0.2.1'])
  t.same(await patient, ['192.0.2.1'])
  t.equal(answers.length, 1)
})

t.test('a signal that was aborted before ends it at once', async t => {
  const { lookup } = held()
  const reason = new Error('gone')
  const signal = AbortSignal.abort(reason)
  await t.rejects(resolverOf(lookup).resolve('a.test', { signal }), reason)
})

t.test('names below .invalid are 502 without a query (RFC 6761 §6.4)', async t => {
  const asked: string[] = []
  const resolver = resolverOf(async name => {
    asked.push(name)
    return ['192.0.2.1']
  })
  for (const name of ['invalid', 'a.invalid', 'a.b.invalid']) {
    await t.rejects(resolver.resolve(name, never), { message: /./, type: 'dns_error', status: 502 })
  }
  t.same(asked, [])
  for (const name of ['ainvalid', 'invalid.test', 'a.invalids']) await resolver.resolve(name, never)
  t.same(asked, ['ainvalid', 'invalid.test', 'a.invalids'])
})
