import { pino } from 'pino'
import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { ProxyError } from '../../src/errors.js'
import { parseHost } from '../../src/http/authority.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { DOWN_MS } from '../../src/upstream/availability.js'
import type { Parent } from '../../src/upstream/parent.js'
import { createParents, Parents } from '../../src/upstream/parents.js'

const YAML = 'version: 1\nparent: { url: ["http://a.test:1", "https://b.test"], no_proxy: [c.test] }\n'
const dialer = {
  connect: async () => Promise.reject(new Error('dialled')),
  connectTls: async () => Promise.reject(new Error('dialled')),
}
const options = { dialer, sender: { maxHeaderBytes: 1000, keepAliveMs: 1000 }, now: () => 0 }

t.test('in order, each once, those that are down last', async t => {
  const { config, files } = parseConfig(YAML)
  t.equal(createParents(parseConfig('version: 1\n'), pino({ level: 'silent' }), options), undefined)
  const changes: unknown[] = []
  if (config.parent === undefined) throw new Error('none')
  const parents = new Parents(config.parent, files.parent ?? {}, {
    ...options,
    onChange: ({ url }, error) => changes.push([url, error?.type]),
  })
  const order = (): string[] => {
    const tried = new Set<Parent>()
    for (let next = parents.take(tried); next !== undefined; next = parents.take(tried)) tried.add(next)
    return [...tried].map(({ url }) => url)
  }
  t.same(order(), ['http://a.test:1', 'https://b.test:443'])
  const first = parents.take(new Set())
  if (first === undefined) throw new Error('none')
  t.match(first, { source: 'parent.url', host: { name: 'a.test' }, port: 1, secureContext: undefined })
  t.not(parents.take(new Set([first]))?.secureContext, undefined)
  parents.unreached(first, new ProxyError('connection_refused', 'm'))
  t.same(order(), ['https://b.test:443', 'http://a.test:1'])
  parents.reached(first)
  t.same(changes, [
    ['http://a.test:1', 'connection_refused'],
    ['http://a.test:1', undefined],
  ])
  t.equal(parents.takes(parseHost('c.test')), false)
  t.equal(parents.takes(parseHost('d.test')), true)
  parents.close()
})

t.test('of the requests that come when one may be back, a single one tries it', async t => {
  const { config, files } = parseConfig(YAML)
  const clock = new ManualClock()
  if (config.parent === undefined) throw new Error('none')
  const made = { ...options, now: clock.now, onChange: () => {} }
  const parents = new Parents(config.parent, files.parent ?? {}, made)
  t.teardown(() => parents.close())
  const take = () => parents.take(new Set())
  const first = take()
  if (first === undefined) throw new Error('none')
  parents.unreached(first, new ProxyError('connection_refused', 'm'))
  clock.advance(DOWN_MS - 1)
  t.match(take(), { url: 'https://b.test:443' })
  clock.advance(1)
  t.equal(take(), first)
  t.match(take(), { url: 'https://b.test:443' })
  clock.advance(DOWN_MS)
  t.equal(take(), first)
})
