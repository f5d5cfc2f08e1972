import t from 'tap'
import { createOrigins } from '../../src/origin/create-origins.js'
import type { Upstream } from '../../src/origin/passthrough.js'
import type { Dialer } from '../../src/upstream/dial.js'
import type { Sender } from '../../src/upstream/sender.js'
import { load } from '../config/problems-of.js'

const [fast, exact] = [{}, {}] as [Sender, Sender]

t.test('plain upstreams share the senders of the proxy, each https:// one has its own', async t => {
  const { origins } = load(
    'origins: [{ path: /, forward: ["http://a", "https://a", "https://a:1"] }, { path: /v1, store: {} }]',
  )
  const made = createOrigins(origins, {
    dialer: {} as Dialer,
    sender: { maxHeaderBytes: 1, keepAliveMs: 1 },
    fast,
    exact,
    methods: { trace: false, extra: [] },
    store: { folder: t.testdir(), now: () => 0, date: () => '', randomId: () => 'x' },
    upstreamCa: new Map(),
    now: () => 0,
    onChange: () => {},
  })
  t.same(
    made.routes.map(({ key, path, kind }) => [key, path, kind]),
    [
      ['origins[1]', '/v1', 'store'],
      ['origins[0]', '/', 'forward'],
    ],
  )
  const route = made.routes[1]
  if (route?.kind !== 'forward') throw new Error('no upstreams')
  const tried = new Set<Upstream>()
  for (let i = 0; i < 3; i++) tried.add(route.upstreams.take(tried) as Upstream)
  const [plain, tls, other] = [...tried].sort((a, b) => a.url.localeCompare(b.url))
  t.match([plain?.url, tls?.url, other?.url], ['http://a:80', 'https://a:1', 'https://a:443'])
  t.equal(plain?.fast, fast)
  t.equal(plain?.exact, exact)
  t.equal(new Set([fast, exact, tls?.fast, tls?.exact, other?.fast, other?.exact]).size, 6)
  await made.close()
})
