import { createRequire } from 'node:module'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { serializeAllow } from '../../src/http/allow.js'
import { createOrigins, type OriginsOptions } from '../../src/origin/create-origins.js'
import type { Upstream } from '../../src/origin/passthrough.js'
import type { Dialer } from '../../src/upstream/dial.js'
import { load } from '../config/problems-of.js'

const OPTIONS: OriginsOptions = {
  dialer: {} as Dialer,
  senderOptions: { headerBytes: 1, keepAliveMs: 1 },
  methods: { trace: false, extra: [] },
  store: {
    folder: '.',
    targetBytes: 8192,
    now: () => 0,
    date: () => '',
    randomId: () => 'x',
    descriptors: NO_DESCRIPTOR_KEPT,
    unreadable: () => {},
    evicted: () => {},
  },
  upstreamCa: new Map(),
  cache: undefined,
  now: () => 0,
  onChange: () => {},
}

t.test('undici is loaded only if there is an upstream', async t => {
  const cache = createRequire(import.meta.url).cache
  const isLoaded = (): boolean => Object.keys(cache).some(path => path.includes('/undici/'))
  for (const [entry, expected] of [
    ['store: {}', false],
    ['forward: "http://a"', true],
  ] as const) {
    const made = createOrigins(load(`origins: [{ path: /, ${entry} }]`).origins, OPTIONS)
    t.equal(isLoaded(), expected, entry)
    await made.close()
  }
})

t.test('each upstream has a sender of its own', async t => {
  const { origins } = load(
    'origins: [{ path: /, forward: ["http://a", "https://a", "https://a:1"] }, { path: /v1, store: {} }]',
  )
  const made = createOrigins(origins, OPTIONS)
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
  t.equal(new Set([plain?.sender, tls?.sender, other?.sender]).size, 3)
  await made.close()
})

t.test('a route allows the listed methods that are in use, and a store no extension methods', async t => {
  const { origins } = load(`methods: { extra: [PROPFIND] }
origins:
  - { path: /all, forward: "http://a" }
  - { path: /some, methods: [PROPFIND, TRACE, GET], forward: "http://a" }
  - { path: /none, methods: [], forward: "http://a" }
  - { path: /kept, store: {} }
  - { path: /read, methods: [TRACE, GET], store: { directory: ./read } }
`)
  const methods = (trace: boolean) => {
    const { routes } = createOrigins(origins, { ...OPTIONS, methods: { trace, extra: ['PROPFIND'] } })
    return Object.fromEntries(routes.map(route => [route.path, serializeAllow(route.methods)]))
  }
  const nine = 'GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH'
  t.same(methods(true), {
    '/all': `${nine}, PROPFIND`,
    '/some': 'GET, TRACE, PROPFIND',
    '/none': '',
    '/kept': nine,
    '/read': 'GET, TRACE',
  })
  const eight = nine.replace('TRACE, ', '')
  t.same(methods(false), {
    '/all': `${eight}, PROPFIND`,
    '/some': 'GET, PROPFIND',
    '/none': '',
    '/kept': eight,
    '/read': 'GET',
  })
})
