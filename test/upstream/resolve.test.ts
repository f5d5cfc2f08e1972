import t from 'tap'
import { createResolver, type Lookup } from '../../src/upstream/resolve.js'

const never = new AbortController().signal

function failing(code: string): Lookup {
  return async () => {
    throw Object.assign(new Error(`lookup ${code}`), { code })
  }
}

/** A lookup that is answered by the test. */
function held() {
  const asked: string[] = []
  const answers: ((addresses: string[]) => void)[] = []
  const rejections: ((error: Error) => void)[] = []
  const lookup: Lookup = name => {
    asked.push(name)
    return new Promise((resolve, reject) => {
      answers.push(resolve)
      rejections.push(reject)
    })
  }
  return { asked, answers, rejections, lookup }
}

t.test('gives all addresses in the order of the resolver', async t => {
  const resolver = createResolver(async () => ['192.0.2.2', '2001:db8::1', '192.0.2.1'], 1000)
  t.same(await resolver.resolve('a.test', never), ['192.0.2.2', '2001:db8::1', '192.0.2.1'])
})

t.test('a name that DNS does not know is 502, and says so (RFC 9209 §2.3.2)', async t => {
  for (const code of ['ENOTFOUND', 'ENODATA']) {
    await t.rejects(createResolver(failing(code), 1000).resolve('a.test', never), {
      type: 'dns_error',
      status: 502,
      message: 'no address found for a.test',
      detail: 'DNS has no address for a.test.',
      cause: { code },
    })
  }
  await t.rejects(createResolver(async () => [], 1000).resolve('a.test', never), {
    type: 'dns_error',
    status: 502,
    message: 'no address found for a.test',
  })
})

t.test('a server that fails is 502, EAI_AGAIN too (RFC 9209 §2.3.2)', async t => {
  for (const code of ['EAI_AGAIN', 'ESERVFAIL', 'ETIMEOUT', 'ECONNREFUSED', 'EREFUSED']) {
    await t.rejects(createResolver(failing(code), 1000).resolve('a.test', never), {
      type: 'dns_error',
      status: 502,
      message: 'DNS failed for a.test',
      detail: `The DNS server could not answer for a.test (${code}).`,
    })
  }
  await t.rejects(
    createResolver(async () => {
      throw new Error('no code')
    }, 1000).resolve('a.test', never),
    { message: /./, type: 'dns_error', status: 502, detail: 'The DNS server could not answer for a.test.' },
  )
})

t.test('only our own clock makes 504 (RFC 9209 §2.3.1)', async t => {
  const { lookup, answers } = held()
  const resolver = createResolver(lookup, 10)
  await t.rejects(resolver.resolve('a.test', never), { message: /./, type: 'dns_timeout', status: 504 })
  answers[0]?.(['192.0.2.1'])
})

t.test('a lookup that fails behind its time limit harms nobody', async t => {
  const { lookup, rejections } = held()
  await t.rejects(createResolver(lookup, 10).resolve('a.test', never), { message: /./, type: 'dns_timeout' })
  rejections[0]?.(new Error('late'))
  await new Promise(resolve => setImmediate(resolve))
})

t.test('those who ask for the same name at once share one query', async t => {
  const { lookup, asked, answers, rejections } = held()
  const resolver = createResolver(lookup, 1000)
  const both = [resolver.resolve('a.test', never), resolver.resolve('a.test', never)]
  const other = resolver.resolve('b.test', never)
  t.same(asked, ['a.test', 'b.test'])
  answers[0]?.(['192.0.2.1'])
  answers[1]?.(['192.0.2.2'])
  t.same(await Promise.all(both), [['192.0.2.1'], ['192.0.2.1']])
  t.same(await other, ['192.0.2.2'])

  const third = resolver.resolve('a.test', never)
  t.equal(asked.length, 3, 'nothing is remembered once it is answered')
  rejections[2]?.(new Error('x'))
  await t.rejects(third, { message: /./, type: 'dns_error' })
  const fourth = resolver.resolve('a.test', never)
  t.equal(asked.length, 4, 'neither is a failure')
  answers[3]?.(['192.0.2.3'])
  t.same(await fourth, ['192.0.2.3'])
})

t.test('one that gives up takes nothing from the others', async t => {
  const { lookup, answers } = held()
  const resolver = createResolver(lookup, 1000)
  const controller = new AbortController()
  const impatient = resolver.resolve('a.test', controller.signal)
  const patient = resolver.resolve('a.test', never)
  const reason = new Error('gone')
  controller.abort(reason)
  await t.rejects(impatient, reason)
  answers[0]?.(['192.0.2.1'])
  t.same(await patient, ['192.0.2.1'])
})

t.test('a signal that was aborted before ends it at once', async t => {
  const { lookup } = held()
  const reason = new Error('gone')
  await t.rejects(createResolver(lookup, 1000).resolve('a.test', AbortSignal.abort(reason)), reason)
})

t.test('names below .invalid are 502 without a query (RFC 6761 §6.4)', async t => {
  const asked: string[] = []
  const resolver = createResolver(async name => {
    asked.push(name)
    return ['192.0.2.1']
  }, 1000)
  for (const name of ['invalid', 'a.invalid', 'a.b.invalid']) {
    await t.rejects(resolver.resolve(name, never), { message: /./, type: 'dns_error', status: 502 })
  }
  t.same(asked, [])
  for (const name of ['ainvalid', 'invalid.test', 'a.invalids']) await resolver.resolve(name, never)
  t.same(asked, ['ainvalid', 'invalid.test', 'a.invalids'])
})
