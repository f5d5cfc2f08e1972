import { isIP } from 'node:net'
import t from 'tap'
import { systemLookup, systemLookupsAtOnce, untimed } from '../../src/dns/lookup.js'

t.test('the system resolves localhost, from its own files', async t => {
  const addresses = await systemLookup('localhost')
  t.ok(addresses.length > 0)
  for (const address of addresses) {
    t.ok(isIP(address), address)
    t.match(address, /^(?:127\.|::1$)/)
  }
})

t.test('an answer of a lookup without TTLs has none', async t => {
  const source = untimed(async name => [`for ${name}`])
  t.strictSame(await source.lookup('a.test'), { addresses: ['for a.test'], ttlMs: undefined })
  source.close()
  t.strictSame(await source.lookup('b.test'), { addresses: ['for b.test'], ttlMs: undefined })
})

t.test('half of the threads of libuv look up names, counted as libuv does', async t => {
  for (const [threads, atOnce] of [
    [undefined, 2],
    ['1', 1],
    ['2', 1],
    ['3', 2],
    ['4', 2],
    ['64', 32],
    ['64 ', 32],
    ['1024', 512],
    ['5000', 512],
    ['0', 1],
    ['', 1],
    ['many', 1],
    ['-1', 512],
  ] as const) {
    t.equal(systemLookupsAtOnce(threads), atOnce, `${threads}`)
  }
})

t.test('a failure is passed on unchanged', async t => {
  const error = Object.assign(new Error('no'), { code: 'EAI_AGAIN' })
  await t.rejects(untimed(() => Promise.reject(error)).lookup('a.test'), error)
  const defect = (): never => {
    throw error
  }
  t.throws(() => untimed(defect).lookup('a.test'), error, 'and a defect is not taken for one')
})
