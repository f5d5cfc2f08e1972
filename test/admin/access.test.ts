/** Who may ask the admin listener: on real sockets, with a configuration of their own. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashSync } from 'bcryptjs'
import t, { type Test } from 'tap'
import { hasJsonType, isSameOrigin, parseOwnHost } from '../../src/admin/access.js'
import { describeMistake } from '../../src/admin/proxy-request.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const status = (answer: string) => Number(answer.slice(9, 12))
const body = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4)
const basic = (text: string) => `Authorization: Basic ${Buffer.from(text).toString('base64')}\r\n`
const RIGHT = basic('alice:correct horse')
const JSON_TYPE = 'Content-Type: application/json\r\nContent-Length: 0\r\n'

/** @param access the rest of the map of `listen.admin`; `users` there is an htpasswd file that alice is in */
async function guarded(t: Test, access: string, proxyAddress = '127.0.0.1:0') {
  const users = join(t.testdir(), 'users')
  const write = (password: string) => writeFileSync(users, `alice:${hashSync(password, 4)}\n`)
  write('correct horse')
  const yaml = (map: string) =>
    `listen: { proxy: ["${proxyAddress}"], admin: { address: "127.0.0.1:0", ${map.replace('users', users)} } }\n`
  const proxy = await testProxy(t, yaml(access))
  const ask = async (request: string, fields = '', from = '127.0.0.1'): Promise<string> => {
    const client = await rawClient(t, proxy.adminPort, from)
    client.write(`${request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${fields}\r\n`)
    const answer = await client.untilEnd()
    client.destroy()
    return answer
  }
  return { proxy, ask, write, reload: (map = access) => proxy.reload(yaml(map)) }
}

const GUARDED = ['/', '/status.json', '/metrics', '/events', '/cache/stats', '/nowhere']

t.test('without basic and cidr everybody may ask', async t => {
  const { ask } = await guarded(t, '')
  for (const path of ['/', '/status.json', '/metrics', '/health'])
    t.equal(status(await ask(`GET ${path}`)), 200)
})

t.test(
  'with basic a name and a password are asked for, but not by what probes ask (RFC 9110 §11.6.1)',
  async t => {
    const { ask, proxy } = await guarded(t, 'basic: { htpasswd_file: users }')
    for (const path of GUARDED) {
      const answer = await ask(`GET ${path}`)
      t.equal(status(answer), 401, path)
      t.match(answer, '\r\nWWW-Authenticate: Basic realm="Sluice admin", charset="UTF-8"\r\n')
    }
    t.equal(status(await ask('POST /tunnels/a/close', JSON_TYPE)), 401)
    for (const path of ['/health', '/ready', '/proxy.pac'])
      t.equal(status(await ask(`GET ${path}`)), 200, path)
    t.same(
      proxy.events.filter(({ event }) => event === 'admin_refused'),
      [],
      'no news: a browser asks so first',
    )
    for (const path of ['/', '/status.json', '/metrics'])
      t.equal(status(await ask(`GET ${path}`, RIGHT)), 200)
    t.equal(status(await ask('POST /tunnels/a/close', RIGHT + JSON_TYPE)), 404)
    t.equal(status(await ask('GET /nowhere', RIGHT)), 404)
  },
)

t.test('wrong credentials are 401 and in the log, without them, and 429 after twenty', async t => {
  const { ask, proxy } = await guarded(t, 'basic: { htpasswd_file: users }')
  const wrong = [
    ['credentials_wrong', basic('alice:wrong')],
    ['credentials_wrong', basic('mallory:correct horse')],
    ['credentials_wrong', basic('alice:')],
    ['credentials_malformed', 'Authorization: Basic !\r\n'],
    ['credentials_malformed', RIGHT + RIGHT],
  ] as const
  let logged = 0
  for (const [reason, fields] of wrong) {
    t.equal(status(await ask('GET /metrics?a=b', fields)), 401)
    const event = await proxy.event('admin_refused', ++logged)
    t.match(event, { level: 'warn', client_address: '127.0.0.1', method: 'GET', path: '/metrics', reason })
    t.notMatch(JSON.stringify(event), /horse|alice|mallory|YWxpY2/)
  }
  t.equal(status(await ask('GET /metrics', 'Authorization: Bearer a\r\n')), 401)
  for (let i = wrong.length; i < 20; i++) t.equal(status(await ask('GET /', basic(`alice:${i}`))), 401)
  const late = await ask('GET /', RIGHT)
  t.equal(status(late), 429)
  t.match(late, /\r\nRetry-After: \d+\r\n/)
  t.equal(status(await ask('GET /', RIGHT, '127.0.0.2')), 200, 'another address is not held up')
  t.equal(status(await ask('GET /ready')), 200)
})

t.test('with cidr other addresses are answered what is for everybody alone', async t => {
  const { ask, proxy } = await guarded(t, 'cidr: ["127.0.0.2/31", "::1"]')
  for (const path of GUARDED) {
    const answer = await ask(`GET ${path}`)
    t.equal(status(answer), 403)
    t.match(body(answer), 'listen.admin.cidr does not hold 127.0.0.1\n')
  }
  t.match(await proxy.event('admin_refused'), {
    level: 'warn',
    reason: 'address',
    client_address: '127.0.0.1',
  })
  t.equal(status(await ask('POST /tunnels/a/close', JSON_TYPE)), 403)
  for (const path of ['/health', '/ready', '/proxy.pac']) t.equal(status(await ask(`GET ${path}`)), 200)
  for (const from of ['127.0.0.2', '127.0.0.3']) t.equal(status(await ask('GET /metrics', '', from)), 200)
  t.equal(status(await ask('GET /metrics', '', '127.0.0.4')), 403)
})

t.test('with both, both have to hold, and the address comes first', async t => {
  const { ask } = await guarded(t, 'cidr: ["127.0.0.2"], basic: { htpasswd_file: users }')
  t.equal(status(await ask('GET /', RIGHT)), 403)
  t.equal(status(await ask('GET /', '', '127.0.0.2')), 401)
  t.equal(status(await ask('GET /', RIGHT, '127.0.0.2')), 200)
})

t.test('read_only lets nothing be changed, and all be seen', async t => {
  const { ask, proxy } = await guarded(t, 'read_only: true')
  for (const path of ['/tunnels/a/close', '/cache/purge?all=true']) {
    const answer = await ask(`POST ${path}`, JSON_TYPE)
    t.equal(status(answer), 403)
    t.match(body(answer), 'nothing can be changed here: listen.admin has read_only: true\n')
  }
  t.match(await proxy.event('admin_refused'), {
    reason: 'read_only',
    method: 'POST',
    path: '/tunnels/a/close',
  })
  for (const path of ['/', '/status.json', '/metrics']) t.equal(status(await ask(`GET ${path}`)), 200)
  t.match(
    JSON.parse(
      body(await ask('GET /status.json', 'Accept: a/b\r\n')).replace(/^[0-9a-f]+\r\n|\r\n.*$/gs, ''),
    ),
    {
      listen: { read_only: true },
    },
  )
})

t.test('a reload has other passwords and rules count from then on', async t => {
  const { ask, write, reload } = await guarded(t, 'basic: { htpasswd_file: users }')
  t.equal(status(await ask('GET /', RIGHT)), 200)
  write('battery staple')
  t.same((await reload()).needsRestart, [])
  t.equal(status(await ask('GET /', RIGHT)), 401, 'what was right is not remembered')
  t.equal(status(await ask('GET /', basic('alice:battery staple'))), 200)
  await reload('read_only: true')
  t.equal(status(await ask('GET /')), 200)
  t.equal(status(await ask('POST /tunnels/a/close', JSON_TYPE)), 403)
})

t.test('a request for the proxy is told where that is, whoever asks (RFC 9112 §3.2.2, §3.2.3)', async t => {
  const { ask, proxy } = await guarded(t, 'cidr: ["192.0.2.1"]')
  const sentence = `this is the admin listener; the proxy is at http://127.0.0.1:${proxy.port}`
  let logged = 0
  for (const [method, target] of [
    ['GET', 'http://example.com/a?b'],
    ['POST', 'http://localhost/'],
    ['GET', 'http://ann:s3cret@example.com/'],
    ['CONNECT', 'ann:s3cret@example.com:443'],
    ['GET', 'ws://example.com/'],
    ['CONNECT', 'example.com:443'],
  ] as const) {
    const answer = await ask(`${method} ${target}`)
    t.match(answer, `HTTP/1.1 403 Sluice: ${sentence}\r\n`)
    t.equal(answer.slice(answer.indexOf('\r\n\r\n') + 4).includes(sentence), true)
    t.match(await proxy.event('admin_refused', ++logged), {
      level: 'warn',
      client_address: '127.0.0.1',
      method,
      reason: 'proxy_request',
      message: sentence,
    })
  }
  t.notMatch(JSON.stringify(proxy.events), 's3cret')
  t.match(await proxy.event('admin_refused', 3), { path: 'http://example.com/' })
})

t.test('also where that listens on every address, on TLS or on a Unix socket alone', t => {
  const at = (host: string, port: number) => ({ host, port })
  const unix = { path: '/run/a.sock' }
  for (const [listeners, reached, expected] of [
    [{ proxy: [at('0.0.0.0', 1)], tls: undefined }, '::ffff:10.1.2.3', 'http://10.1.2.3:1'],
    [{ proxy: [at('::', 1)], tls: undefined }, '2001:db8::1', 'http://[2001:db8::1]:1'],
    [{ proxy: [at('0.0.0.0', 1)], tls: undefined }, undefined, 'http://127.0.0.1:1'],
    [{ proxy: [unix, at('10.0.0.1', 2)], tls: at('10.0.0.1', 3) }, undefined, 'http://10.0.0.1:2'],
    [{ proxy: [unix], tls: at('::1', 3) }, undefined, 'https://[::1]:3'],
    [{ proxy: [unix], tls: undefined }, undefined, 'unix:/run/a.sock'],
  ] as const) {
    t.equal(describeMistake(listeners, reached), `this is the admin listener; the proxy is at ${expected}`)
  }
  t.end()
})

t.test('a CONNECT with bytes behind it, and one behind a request, leave nothing open', async t => {
  const { proxy } = await guarded(t, '')
  const client = await rawClient(t, proxy.adminPort)
  client.write('CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n\x16\x03\x01')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 403 /)
  client.end()
  await client.closed()
  const second = await rawClient(t, proxy.adminPort)
  second.write(
    'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nCONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n',
  )
  await second.untilEnd()
})

t.test('Host is localhost, an address or one of the names, in whatever spelling', async t => {
  const hosts = ['sluice.test']
  for (const value of ['localhost', 'LOCALHOST.:9128', '127.0.0.1', '[::1]:1', 'Sluice.Test:80']) {
    t.not(parseOwnHost(value, hosts), undefined, value)
  }
  for (const value of [
    undefined,
    '',
    'evil.test',
    'a.sluice.test',
    'sluice.test.evil.test',
    'a@localhost',
    '127.1',
  ]) {
    t.equal(parseOwnHost(value, hosts), undefined, String(value))
  }
  t.match(parseOwnHost('[::1]:9128', hosts), { host: { kind: 'ipv6', name: '::1' }, port: 9128 })
})

t.test(
  'what a browser says of the page it comes from decides, else Origin, which programs do not send',
  async t => {
    const host = 'localhost:9128'
    const table: [Record<string, string>, boolean][] = [
      [{}, true],
      [{ 'sec-fetch-site': 'same-origin' }, true],
      [{ 'sec-fetch-site': 'same-origin', origin: 'http://localhost:9128' }, true],
      [{ 'sec-fetch-site': 'same-site' }, false],
      [{ 'sec-fetch-site': 'cross-site' }, false],
      [{ 'sec-fetch-site': 'none' }, false],
      [{ 'sec-fetch-site': '' }, false],
      [{ 'sec-fetch-site': 'cross-site', origin: 'http://localhost:9128' }, false],
      [{ origin: 'http://localhost:9128' }, true],
      [{ origin: 'http://localhost' }, false],
      [{ origin: 'http://localhost:9129' }, false],
      [{ origin: 'https://localhost:9128' }, false],
      [{ origin: 'http://evil.test' }, false],
      [{ origin: 'null' }, false],
      [{ origin: '' }, false],
    ]
    for (const [headers, expected] of table) {
      t.equal(isSameOrigin({ host, ...headers }), expected, JSON.stringify(headers))
    }
  },
)

t.test('JSON is a type that no form sends', async t => {
  for (const type of ['application/json', 'Application/JSON', 'application/json; charset=utf-8']) {
    t.equal(hasJsonType({ 'content-type': type }), true, type)
  }
  for (const type of [
    'text/plain',
    'text/plain; application/json',
    'application/x-www-form-urlencoded',
    'application/jsonp',
    '',
  ]) {
    t.equal(hasJsonType({ 'content-type': type }), false, type)
  }
  t.equal(hasJsonType({}), false)
})
