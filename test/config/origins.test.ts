import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'
import { Authority } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'
import { load, problems, refuses } from './problems-of.js'

const origin = (entry: string) => load(`origins: [{ ${entry} }]`).origins[0]
const UP = 'forward: "http://a"'
const PATH = 'expected a path such as / or /v1'

t.test('an entry with forward, and what is left out', async t => {
  const found = origin(`path: /, ${UP}`)
  t.match(found, {
    kind: 'forward',
    hosts: [{ kind: 'any' }],
    path: '/',
    upstreams: [{ text: 'http://a:80' }],
    hostHeader: 'keep',
    forwarded: 'none',
    ca: undefined,
  })
  t.equal(found?.methods, undefined)
  t.match(
    origin('path: /x, forward: ["http://a", "https://b:1"], host_header: rewrite, forwarded: forwarded'),
    {
      upstreams: [{ text: 'http://a:80' }, { text: 'https://b:1' }],
      hostHeader: 'rewrite',
      forwarded: 'forwarded',
    },
  )
  t.same(origin(`path: /, ${UP}, methods: []`)?.methods, [])
  t.same(origin(`path: /, ${UP}, methods: [PATCH, TRACE]`)?.methods, ['PATCH', 'TRACE'])
  t.same(load('').origins, [])
})

t.test('an entry with store, and what is left out', async t => {
  t.match(origin('path: /, store: {}'), {
    kind: 'store',
    store: {
      directory: './data',
      write: [{ text: '127.0.0.0/8' }, { text: '::1/128' }],
      maxObjectBytes: 2 ** 30,
      maxTotalBytes: 10 * 2 ** 30,
      evict: 'never',
    },
  })
})

t.test('a store evicts below a limit that is written beside it, and nowhere else', async t => {
  t.match(origin('path: /, store: { max_total: 1GiB, evict: least-recently-used }'), {
    store: { maxTotalBytes: 2 ** 30, evict: 'least-recently-used' },
  })
  t.match(origin('path: /, store: { evict: never }'), { store: { evict: 'never' } })
  refuses(t, [
    [
      'origins: [{ path: /, store: { evict: least-recently-used } }]',
      '2:38 origins[0].store.evict: least-recently-used removes what max_total has no room for; write max_total beside it',
    ],
    [
      'origins: [{ path: /, store: { max_total: 1GiB, evict: lru } }]',
      '2:55 origins[0].store.evict: expected never or least-recently-used, found "lru"',
    ],
  ])
})

t.test('a path is not empty, and that of a store is one of a directory', async t => {
  const directory = '2:42 origins[0].store.directory: expected the path of a directory'
  refuses(t, [
    ['origins: [{ path: /, store: { directory: "" } }]', `${directory}, found ""`],
    ['origins: [{ path: /, store: { directory: "a\\0" } }]', `${directory}, found "a\\u0000"`],
    ['origins: [{ path: /, store: { directory: {} } }]', `${directory}, found a map`],
    [
      'origins: [{ path: /, forward: "https://a", ca: "" }]',
      '2:48 origins[0].ca: expected the path of a file, found ""',
    ],
  ])
})

t.test('exactly one of forward and store, with the keys that belong to it', async t => {
  refuses(t, [
    ['origins: [{ path: / }]', '2:11 origins[0]: expected forward or store, found neither'],
    [`origins: [{ path: /, ${UP}, store: {} }]`, '2:11 origins[0]: expected forward or store, found both'],
    [
      'origins: [{ path: /, store: {}, host_header: keep }]',
      '2:11 origins[0]: host_header goes with forward, found it with store',
    ],
    [
      'origins: [{ path: /, store: {}, ca: x }]',
      '2:11 origins[0]: ca goes with forward, found it with store',
    ],
    [
      `origins: [{ path: /, ${UP}, ca: x }]`,
      '2:11 origins[0]: ca is for https:// upstreams, and forward names none',
    ],
  ])
})

t.test('host is a name, names below one, an address or a block of them, or a list', async t => {
  const hosts = (text: string) => origin(`host: ${text}, path: /, ${UP}`)?.hosts
  const host = (text: string) => hosts(`"${text}"`)?.[0]
  t.match(host('A.test.'), { kind: 'exact', name: 'a.test' })
  t.match(host('*.a.test'), { kind: 'suffix', suffix: '.a.test' })
  t.match(host('[::1]'), { kind: 'address', ip: { text: '::1' } })
  t.match(host('10.0.0.0/8'), { kind: 'cidr', cidr: { text: '10.0.0.0/8' } })
  t.match(hosts('[localhost, "::/0"]'), [
    { kind: 'exact', name: 'localhost' },
    { kind: 'cidr', cidr: { text: '::/0' } },
  ])
  const expected = 'expected a host name, "*.example.com", an IP address or a CIDR'
  refuses(t, [
    [
      `origins: [{ host: "*", path: /, ${UP} }]`,
      `2:19 origins[0].host: ${expected}, found "*"; leave the key out for every host`,
    ],
    [
      `origins: [{ host: 5, path: /, ${UP} }]`,
      `2:19 origins[0].host: ${expected}, or a list of them, found 5`,
    ],
    [
      `origins: [{ host: [], path: /, ${UP} }]`,
      '2:19 origins[0].host: expected a list of hosts, found an empty list',
    ],
  ])
  for (const [bad, place, found] of [
    ['{}', '2:19 origins[0].host', `${expected}, or a list of them, found a map`],
    ['{ a: b }', '2:19 origins[0].host', `${expected}, or a list of them, found a map`],
    ['[{}]', '2:20 origins[0].host[0]', `${expected}, found a map`],
    ['[[a]]', '2:20 origins[0].host[0]', `${expected}, found a list`],
  ]) {
    refuses(t, [[`origins: [{ host: ${bad}, path: /, ${UP} }]`, `${place}: ${found}`]])
  }
  refuses(t, [
    [
      `origins: [{ host: "a:80", path: /, ${UP} }]`,
      `2:19 origins[0].host: ${expected}, found "a:80", with a port; leave it out`,
    ],
    [`origins: [{ host: [a, "-"], path: /, ${UP} }]`, `2:23 origins[0].host[1]: ${expected}, found "-"`],
  ])
})

t.test('path begins with a slash, and holds what a path can hold', async t => {
  const path = (text: string) => origin(`path: "${text}", ${UP}`)?.path
  t.equal(path('/v1'), '/v1')
  t.equal(path('/v1/'), '/v1/')
  t.equal(path("/a%2f!$&'()*+,;=:@~"), "/a%2F!$&'()*+,;=:@~")
  t.equal(path('/%761'), '/v1')
  for (const bad of ['', 'v1', '/a b', '/a?b', '/a#b', '/é', '*', 'http://a/']) {
    t.same(problems(`origins: [{ path: "${bad}", ${UP} }]`), [
      `2:19 origins[0].path: ${PATH}, found "${bad}"`,
    ])
  }
  t.same(problems(`origins: [{ path: /a/%2e./b, ${UP} }]`), [
    `2:19 origins[0].path: ${PATH}, found "/a/%2e./b", with a dot segment`,
  ])
  t.same(problems(`origins: [{ ${UP} }]`), [`2:11 origins[0].path: the key \`path\` is missing; ${PATH}`])
})

t.test('forward is a URL or a list of them', async t => {
  const url = 'expected a URL such as "http://10.0.0.5:8080" or "https://api.example"'
  refuses(t, [
    ['origins: [{ path: /, forward: 1 }]', `2:31 origins[0].forward: ${url}, or a list of them, found 1`],
    [
      'origins: [{ path: /, forward: "http://a/x" }]',
      `2:31 origins[0].forward: ${url}, found "http://a/x", with a path or query; requests keep their own`,
    ],
    [
      'origins: [{ path: /, forward: ["http://a", b] }]',
      `2:44 origins[0].forward[1]: ${url}, found "b", which does not begin with http:// or https://`,
    ],
  ])
  t.equal(problems('origins: [{ path: /, forward: [] }]').length, 1)
  t.same(problems(`origins: [{ path: /, ${UP}, methods: [CONNECT] }]`), [
    '2:53 origins[0].methods[0]: CONNECT cannot be listed: a tunnel leads to no origin',
  ])
})

t.test('no two entries are for the same host and path', async t => {
  refuses(t, [
    [
      `origins: [{ path: /v1, ${UP} }, { path: /%761, ${UP} }]`,
      '2:55 origins[1].path: an entry above is for every host and /v1 already',
    ],
    [
      `origins: [{ host: A.test, path: /, ${UP} }, { host: a.test., path: /, store: {} }]`,
      '2:82 origins[1].path: an entry above is for a.test and / already',
    ],
    [
      `origins: [{ host: [a, b], path: /, ${UP} }, { host: ["[::1]", B], path: /, ${UP} }]`,
      '2:87 origins[1].path: an entry above is for b and / already',
    ],
  ])
  t.same(
    problems(`origins: [{ host: a, path: /, ${UP} }, { path: /, ${UP} }, { host: "*.a", path: /, ${UP} }]`),
    [],
  )
})

t.test('ca is read with the configuration', { skip: needs('openssl') }, async t => {
  const folder = t.testdir()
  const ca = Authority.make(folder)
  writeFileSync(join(folder, 'bad.pem'), 'nothing')
  const yaml = (file: string) => `version: 1\norigins: [{ path: /, forward: "https://a", ca: ${file} }]`
  t.same([...parseConfig(yaml('ca.crt'), 'x', folder).files.upstreamCa], [['ca.crt', ca.cert]])
  for (const file of ['bad.pem', 'missing.pem']) {
    let found: unknown
    try {
      parseConfig(yaml(file), 'x', folder)
    } catch (error) {
      if (error instanceof ConfigError) found = error.problems
    }
    t.match(found, [{ path: 'origins[0].ca', line: 2 }], file)
  }
})
