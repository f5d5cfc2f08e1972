/** Which method a request has: the method specification, 4.1, 7 and 9 (RFC 9110 §9.1, §15.6.2). */
import t from 'tap'
import { METHOD_NAMES } from '../../src/http/method.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { threeWays, UPSTREAM_WAYS, WAYS } from '../kit/proxies/setups.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const NINE = [...METHOD_NAMES]
const others = (name: string): string[] => [
  name.toLowerCase(),
  name.charAt(0) + name.slice(1).toLowerCase(),
  name.slice(0, -1) + name.slice(-1).toLowerCase(),
  `${name}X`,
  name.slice(0, -1),
]

t.test('2, 4.1, 7 a method in other letters is no method here: 501, and nobody is asked', async t => {
  const { origin, connect, target, text } = await threeWays(t)
  for (const name of NINE.flatMap(others)) {
    for (const way of WAYS) {
      const client = await connect()
      client.write(text(name, target(way)))
      const { status, fields } = await readResponse(client)
      t.same([status, fields['allow']], [501, undefined], `${name}, ${way}`)
      t.equal(await client.untilEnd(), '')
    }
  }
  t.equal(origin.requests.length, 0)
})

t.test('1, 4.1 each method in its own letters is answered as what it is', async t => {
  const { origin, ask, target } = await threeWays(t, { yaml: 'trace: { enabled: true }\n' })
  const resource = NINE.filter(name => name !== 'CONNECT')
  for (const way of UPSTREAM_WAYS) {
    for (const method of resource) t.equal((await ask(method, target(way))).status, 200, `${method}, ${way}`)
  }
  t.same(
    origin.requests.map(({ method }) => method),
    [...resource, ...resource],
    'and reaches the origin as it is written',
  )
  const statuses = {
    PUT: 201,
    GET: 200,
    HEAD: 200,
    OPTIONS: 200,
    TRACE: 200,
    PATCH: 415,
    POST: 405,
    DELETE: 204,
  }
  for (const [method, status] of Object.entries(statuses)) {
    t.equal((await ask(method, target('store'))).status, status, `${method}, store`)
  }
  t.equal((await ask('CONNECT', origin.authority)).status, 200)
})

t.test('2, 4.1 a method is a token: what is none is 400, and any token can be let in', async t => {
  const { origin, connect, target, text } = await threeWays(t, {
    yaml: 'methods: { extra: [X, m-search, "!#%"] }\n',
  })
  for (const name of ['G@T', 'GET,', '(GET)', 'G"ET', 'G\xe9T', 'GE\0T', '[GET]', 'GET:', '{}', 'G\x7fT']) {
    for (const way of WAYS) {
      const client = await connect()
      client.write(text(name, target(way)))
      t.equal((await readResponse(client)).status, 400, JSON.stringify(name))
      client.destroy()
    }
  }
  for (const name of ['X', 'm-search', '!#%']) {
    for (const way of UPSTREAM_WAYS) {
      const client = await connect()
      client.write(text(name, target(way)))
      t.equal((await readResponse(client)).status, 200, name)
      t.equal(origin.requests.at(-1)?.method, name, 'capitals are a custom, not a rule')
      client.destroy()
    }
  }
  t.equal(origin.requests.length, 6)
})

t.test('7 a method that none of the nine is: 501', async t => {
  const { origin, ask, target } = await threeWays(t)
  for (const method of ['PROPFIND', 'PRI', 'LINK', 'BREW', 'X']) {
    for (const way of WAYS) t.equal((await ask(method, target(way))).status, 501, `${method}, ${way}`)
    t.equal((await ask(method, '*')).status, 501)
    t.equal((await ask(method, origin.authority)).status, 501)
  }
  t.equal(origin.requests.length, 0)
})

t.test('2, 7 a method that the resource does not take: 405, and Allow has those that it takes', async t => {
  const { origin, ask, target } = await threeWays(t, {})
  for (const [path, allow] of [
    ['/a', 'GET, HEAD, PUT, DELETE, OPTIONS, PATCH'],
    ['/none', 'GET, HEAD, PUT, DELETE, OPTIONS, PATCH'],
    ['/', 'GET, HEAD, POST, OPTIONS'],
  ] as const) {
    for (const method of NINE.filter(name => !['CONNECT', 'TRACE', ...allow.split(', ')].includes(name))) {
      const { status, fields } = await ask(method, target('store', path))
      t.same([status, fields['allow']], [405, allow], `${method} ${path}`)
    }
    t.equal((await ask('OPTIONS', target('store', path))).fields['allow'], allow, 'as OPTIONS says')
  }
  for (const way of UPSTREAM_WAYS) {
    // Whatever an origin lists is forwarded, also an empty list.
    for (const allow of ['GET, HEAD', 'get,, X , ', '']) {
      const line = `Allow: ${allow}\r\n`
      origin.script = () => `HTTP/1.1 405 Method Not Allowed\r\n${line}Content-Length: 0\r\n\r\n`
      const { status, head } = await ask('PUT', target(way), { content: 'x' })
      t.equal(status, 405)
      t.match(head, new RegExp(`\\r\\nAllow: ?${allow.trimEnd()}\\r\\n`), `${way}: ${allow}`)
    }
  }
})

t.test('2, 7 an empty Allow says that a resource takes no method', async t => {
  const yaml = (methods: string) =>
    `origins: [{ path: /, forward: "http://127.0.0.1:1", methods: ${methods} }, { path: /kept, store: {}, methods: ${methods} }]\n`
  for (const [methods, allow, refused] of [
    ['[]', '', ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']],
    ['[OPTIONS, GET]', 'GET, OPTIONS', ['HEAD', 'POST', 'PUT', 'DELETE', 'PATCH']],
  ] as const) {
    const proxy = await testProxy(t, yaml(methods))
    const client = await rawClient(t, proxy.port)
    for (const method of refused) {
      for (const target of ['/', '/kept/a']) {
        client.write(`${method} ${target} HTTP/1.1\r\nHost: h\r\n\r\n`)
        const { status, head } = await readResponse(client, method)
        t.equal(status, 405)
        t.match(head, `\r\nAllow: ${allow}\r\n`, `${method} ${target}`)
      }
    }
  }
})

t.test('9 the version in the request line is HTTP/1.1, and what is no HTTP/1 is refused', async t => {
  const { origin, connect, target, text } = await threeWays(t)
  for (const method of ['GET', 'CONNECT']) {
    for (const [version, status] of [
      ['HTTP/1.1', 200],
      ['HTTP/1.0', 200],
      ['HTTP/2.0', 505],
      ['HTTP/3.0', 505],
      ['HTTP/0.9', 505],
      ['http/1.1', 400],
      ['HTTP/1.', 400],
      ['HTTP/1.10', 400],
      ['ICE/1.1', 400],
    ] as const) {
      const client = await connect()
      const line = method === 'CONNECT' ? origin.authority : target('forward')
      client.write(text(method, line).replace('HTTP/1.1', version))
      const { status: got, head } = await readResponse(client, 'HEAD')
      t.equal(got, status, `${method} ${version}`)
      t.match(head, /^HTTP\/1\.1 /, 'whatever the request said')
      client.destroy()
    }
  }
  t.match(
    origin.requests.map(({ head }) => head),
    [/^GET \/up\/a HTTP\/1\.1\r\n/, /^GET \/up\/a HTTP\/1\.1\r\n/],
    'sent on as HTTP/1.1',
  )
})
