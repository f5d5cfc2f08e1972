/** Who did it: the user of a password or the holder of a certificate in the log and on the status page, and never in metrics. */
import { hashSync } from 'bcryptjs'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { StatusDocument } from '../../src/admin/status-document.js'
import { Authority } from '../kit/peers/authority.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient, type RawPeer } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { tlsClient } from '../kit/peers/tls-client.js'
import { needs } from '../kit/processes/command.js'
import { checkEvents } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

const USERS = ['alice', 'bob', 'carol', '\u00fcbel "\u202e'] as const

/** Everybody's password is `pass word`. */
async function guarded(t: Test, clients: string, more = ''): Promise<TestProxy> {
  const file = join(t.testdir(), 'users')
  const hash = hashSync('pass word', 4)
  writeFileSync(file, USERS.map(name => `${name}:${hash}\n`).join(''))
  return testProxy(t, `${LOOPBACK_RULES}${more}clients:\n${clients.replaceAll('FILE', file)}`)
}

const TEAM = '  - { name: team, basic: { htpasswd_file: "FILE" } }\n'

const credentials = (user: string, password = 'pass word') =>
  `Proxy-Authorization: Basic ${Buffer.from(`${user}:${password}`).toString('base64')}\r\n`

async function connect(t: Test, proxy: TestProxy, authority: string, fields: string): Promise<RawPeer> {
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${fields}\r\n`)
  return client
}

async function statusOf({ adminPort }: TestProxy): Promise<StatusDocument> {
  return (await (await fetch(`http://127.0.0.1:${adminPort}/status.json`)).json()) as StatusDocument
}

const metricsOf = async ({ adminPort }: TestProxy): Promise<string> =>
  (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()

t.test('a user is in both events of a tunnel, in its status while it is open, and in no metric', async t => {
  const origin = await rawOrigin(t)
  const proxy = await guarded(t, TEAM)
  for (const [index, user] of USERS.entries()) {
    const client = await connect(t, proxy, origin.authority, credentials(user))
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    const { tunnels } = await statusOf(proxy)
    t.match(tunnels.listed, [{ client: 'team', user, client_address: '127.0.0.1' }])
    const upstream = await origin.accept()
    client.end()
    upstream.end()
    t.match(await proxy.event('decision', index + 1), { client: 'team', user, decision: 'allow' })
    t.match(await proxy.event('close', index + 1), { client: 'team', user, status: 200 })
  }
  const refused = await connect(t, proxy, 'elsewhere.example:443', credentials('carol'))
  t.equal((await readResponse(refused)).status, 403)
  t.match((await statusOf(proxy)).denials.listed, [{ client: 'team', user: 'carol', reason: 'no_rule' }])
  const metrics = await metricsOf(proxy)
  t.match(metrics, 'sluice_requests_total{kind="connect"')
  for (const user of [...USERS, 'team']) t.notMatch(metrics, user)
})

t.test('a name with a wrong password is not logged: it may be a password itself', async t => {
  const proxy = await guarded(t, TEAM)
  for (const [user, password] of [
    ['alice', 'wrong'],
    ['pass word', 'alice'],
    ['nobody', 'pass word'],
  ] as const) {
    const from = proxy.events.length
    const client = await connect(t, proxy, 'a.test:443', credentials(user, password))
    t.equal((await readResponse(client)).status, 407)
    const events = await checkEvents(
      t,
      proxy,
      from,
      { decision: 'deny', reason: 'credentials_wrong' },
      { status: 407, reason: 'credentials_wrong' },
    )
    t.notMatch(JSON.stringify(events), /"user"|alice|\bpass\b|nobody/)
  }
  const { denials } = await statusOf(proxy)
  t.match(denials.listed, [{ user: null, reason: 'credentials_wrong', count: 3 }])
  t.notMatch(JSON.stringify(denials), /alice|pass word|nobody/)
})

t.test('a client that needs no password has no user, whatever it sends', async t => {
  const proxy = await guarded(t, '  - { name: near, cidr: ["127.0.0.0/8"], rules: [] }\n')
  const client = await connect(t, proxy, 'a.test:443', credentials('alice'))
  t.equal((await readResponse(client)).status, 403)
  t.notOk('user' in (await proxy.event('decision')))
  t.match((await statusOf(proxy)).denials.listed, [{ client: 'near', user: null }])
})

t.test('a refusal for a limit names the account: of two users one has tunnels left', async t => {
  const origin = await rawOrigin(t)
  const proxy = await guarded(t, TEAM, 'limits: { tunnels_per_client: 1 }\n')
  const first = await connect(t, proxy, origin.authority, credentials('alice'))
  t.match(await first.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
  const second = await connect(t, proxy, origin.authority, credentials('alice'))
  const response = await readResponse(second)
  t.equal(response.status, 429)
  t.notMatch(response.head + response.body, 'alice')
  await checkEvents(
    t,
    proxy,
    1,
    { user: 'alice', client: 'team', decision: 'deny', reason: 'limit_tunnels_per_client' },
    { user: 'alice', client: 'team', status: 429, reason: 'limit_tunnels_per_client' },
  )
  const other = await connect(t, proxy, origin.authority, credentials('bob'))
  t.match(await other.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
  const { denials, limits } = await statusOf(proxy)
  t.match(denials.listed, [{ user: 'alice', reason: 'limit_tunnels_per_client' }])
  const share = { client: 'team', client_address: null, count: 1 }
  t.match(limits.find(({ key }) => key === 'tunnels_per_client')?.most, [
    { ...share, user: 'alice' },
    { ...share, user: 'bob' },
  ])
  t.equal(limits.find(({ key }) => key === 'tunnels')?.most, null)
  t.notMatch(await metricsOf(proxy), /alice|bob/)
})

t.test('entries with users share one htpasswd_file, each with its own rules', async t => {
  const entry = (name: string, users: string, rules: string) =>
    `  - { name: ${name}, basic: { htpasswd_file: "FILE" }, ${users} rules: [${rules}] }\n`
  const two = entry('admins', 'users: [alice],', 'local') + entry('guests', 'users: [bob],', '')
  const origin = await rawOrigin(t)
  const proxy = await guarded(t, two)
  const statusFor = async (user: string, password?: string): Promise<[number, string]> => {
    const from = proxy.events.filter(({ event }) => event === 'decision').length
    const client = await connect(t, proxy, origin.authority, credentials(user, password))
    const status = Number((await client.until('\r\n\r\n')).slice(9, 12))
    t.notMatch(status === 200 ? '' : await client.until('\n'), user)
    const decision = await proxy.event('decision', from + 1)
    return [status, [decision['client'], decision['user'], decision['reason']].filter(Boolean).join(' ')]
  }
  t.same(await statusFor('alice'), [200, 'admins alice'])
  t.same(await statusFor('bob'), [403, 'guests bob literal'])
  t.same(await statusFor('carol'), [403, 'carol user'], 'the password is right, and no other one would help')
  t.same(await statusFor('carol', 'wrong'), [407, 'credentials_wrong'])
  t.match(await metricsOf(proxy), 'sluice_denied_total{reason="user"} 1')

  const [open] = (await statusOf(proxy)).tunnels.listed
  t.equal(open?.user, 'alice')
})

t.test('a reload that removes a name closes the tunnels of that user, and no others', async t => {
  const entry = (users: string) => `  - { name: team, basic: { htpasswd_file: "FILE" }, users: [${users}] }\n`
  const origin = await rawOrigin(t)
  const proxy = await guarded(t, entry('alice, bob'))
  const tunnels = []
  for (const user of ['alice', 'bob']) {
    const client = await connect(t, proxy, origin.authority, credentials(user))
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    tunnels.push({ client, upstream: await origin.accept() })
  }
  const file = join(t.testdirName, 'users')
  await proxy.reload(`${LOOPBACK_RULES}clients:\n${entry('bob').replace('FILE', file)}`)
  t.equal(await tunnels[0]?.client.untilEnd(), '')
  t.match(await proxy.event('close'), { user: 'alice', close_reason: 'policy' })
  t.match((await statusOf(proxy)).tunnels.listed, [{ user: 'bob' }])
})

t.test(
  'the user of a certificate is its first alternative name, or else the subject',
  { skip: needs('openssl') },
  async t => {
    const folder = t.testdir()
    const ca = Authority.make(folder, 'clients')
    const { certFile, keyFile } = ca.issue({ san: 'DNS:localhost' })
    const origin = await rawOrigin(t)
    const proxy = await testProxy(
      t,
      `listen:
  proxy: ["127.0.0.1:0"]
  admin: "127.0.0.1:0"
  tls: { address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile}, client_ca: ${ca.certFile} }
${LOOPBACK_RULES}
clients:
  - { name: robots, certificate: { subject: ["OU=robots"] } }
  - { name: ci, certificate: { san: ["spiffe://example/ci"] } }
  - { name: rest, cidr: ["127.0.0.2"] }
`,
    )
    for (const [index, [wanted, client, user]] of (
      [
        [{ subject: '/OU=robots/CN=r1' }, 'robots', 'OU=robots, CN=r1'],
        [{ subject: '/CN=x', san: 'DNS:CI.example,URI:spiffe://example/ci' }, 'ci', 'ci.example'],
        [{ san: 'DNS:other.example' }, undefined, 'other.example'],
      ] as const
    ).entries()) {
      const { cert, key } = ca.issue(wanted)
      const peer = await tlsClient(t, proxy.tlsPort, { ca: ca.cert, cert, key })
      peer.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: ${origin.authority}\r\n\r\n`)
      await peer.until('\r\n\r\n')
      t.match(await proxy.event('decision', index + 1), { client, user })
    }
    const { tunnels, denials } = await statusOf(proxy)
    t.same(tunnels.listed.map(({ user }) => user).sort(), ['OU=robots, CN=r1', 'ci.example'])
    t.match(denials.listed, [{ client: null, user: 'other.example', reason: 'client' }])
    t.notMatch(await metricsOf(proxy), /robots|ci\.example|other\.example/)
  },
)
