/** A reload: what changes at once, what is closed, and what is not affected. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Authority } from '../kit/peers/authority.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { tlsClient } from '../kit/peers/tls-client.js'
import { needs } from '../kit/processes/command.js'

const NOTHING = 'rules: {}\n'

async function status(t: Test, proxy: TestProxy, request: string): Promise<number> {
  const client = await rawClient(t, proxy.port)
  client.write(`${request}\r\nHost: h\r\n\r\n`)
  return (await readResponse(client, request.split(' ')[0] ?? '')).status
}

/** Whether bytes still pass in both directions. */
async function passes({ client, upstream }: { client: RawPeer; upstream: RawPeer }): Promise<boolean> {
  client.write('up')
  upstream.write('down')
  return (await upstream.until(2)) === 'up' && (await client.until(4)) === 'down'
}

t.test('requests after a reload are judged by the new rules, also on connections from before', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const kept = await rawClient(t, proxy.port)
  const ask = async () => {
    kept.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
    return (await readResponse(kept, 'GET')).status
  }
  const answered = async () => {
    const asked = ask()
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
    return await asked
  }
  t.equal(await answered(), 200)
  t.same(await proxy.reload(NOTHING), { needsRestart: [], closedTunnels: 0 })
  t.equal(await ask(), 403)
  await proxy.reload(LOOPBACK_RULES)
  t.equal(await answered(), 200)
  const hashes = [1, 2, 3].map(async count => (await proxy.event('decision', count))['config_hash'])
  const [first, second, third] = await Promise.all(hashes)
  t.not(first, second, 'each decision tells the configuration that it was made by')
  t.equal(first, third)
})

for (const fields of ['', 'Content-Length: 0\r\n']) {
  t.test(`idle connections to origins are closed, whatever else is under way, ${fields.trim()}`, async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t)
    const ask = async (): Promise<{ client: RawPeer; peer: RawPeer }> => {
      const client = await rawClient(t, proxy.port)
      client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n${fields}\r\n`)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      return { client, peer }
    }
    const answered = async ({ client, peer }: { client: RawPeer; peer: RawPeer }) => {
      peer.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
      return (await readResponse(client)).status
    }
    const [busy, idle] = [await ask(), await ask()]
    const ended = () => untilStable(() => [busy, idle].map(({ peer }) => peer.socket.readableEnded).join())
    t.equal(await answered(idle), 200)
    t.equal(await ended(), 'false,false')
    await proxy.reload(NOTHING)
    t.equal(await ended(), 'false,true')
    t.equal(await answered(busy), 200)
    t.equal(await ended(), 'true,true')
  })
}

t.test('tunnels that are no longer allowed are closed, all others continue', async t => {
  const [a, b] = [await rawOrigin(t), await rawOrigin(t)]
  const rules = (...origins: RawOrigin[]) =>
    `rules: { some: { hosts: ["127.0.0.1"], ports: [${origins.map(({ port }) => port).join()}], addresses: ["127.0.0.1"] } }\n`
  const proxy = await testProxy(t, rules(a, b))
  const [toA, toB] = [await openTunnel(t, proxy, a), await openTunnel(t, proxy, b)]
  t.same(await proxy.reload(rules(b)), { needsRestart: [], closedTunnels: 1 })
  t.equal(await toA.client.untilEnd(), '')
  t.equal(await toA.upstream.untilEnd(), '')
  t.match(await proxy.event('close'), { kind: 'connect', status: 200, close_reason: 'policy', port: a.port })
  t.ok(await passes(toB))
})

t.test('a tunnel is judged by the address that it is connected to', async t => {
  const origin = await rawOrigin(t)
  const addresses = { current: ['127.0.0.1'] }
  const rules = (address: string) =>
    `rules: { some: { hosts: ["a.test"], ports: [${origin.port}], addresses: ["${address}"] } }\n`
  const proxy = await testProxy(t, rules('127.0.0.0/8'), { lookup: async () => addresses.current })
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT a.test:${origin.port} HTTP/1.1\r\nHost: h\r\n\r\n`)
  await client.until('\r\n\r\n')
  const upstream = await origin.accept()
  addresses.current = ['127.0.0.2']
  t.match(await proxy.reload(rules('127.0.0.1')), { closedTunnels: 0 }, 'whatever DNS says meanwhile')
  t.ok(await passes({ client, upstream }))
  t.match(await proxy.reload(rules('127.0.0.2')), { closedTunnels: 1 })
})

t.test('an upgraded connection is a tunnel, a request in progress is not', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const upgraded = await rawClient(t, proxy.port)
  upgraded.write(
    `GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
  const socket = await origin.accept()
  await socket.until('\r\n\r\n')
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await upgraded.until('\r\n\r\n')
  const plain = await rawClient(t, proxy.port)
  plain.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  const answering = await origin.accept()
  await answering.until('\r\n\r\n')
  answering.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\non')
  await plain.until('\r\n\r\non')
  t.match(await proxy.reload(NOTHING), { closedTunnels: 1 })
  t.equal(await upgraded.untilEnd(), '')
  answering.write('ce')
  t.equal(await plain.until(2), 'ce')
  t.match(await proxy.event('close', 2), { status: 200, close_reason: 'complete' })
})

t.test(
  'a client that may not use the proxy any more loses its tunnels, also one with a password',
  async t => {
    const origin = await rawOrigin(t)
    /** Of the password "secret", at the lowest cost. */
    const hash = '$2b$04$DP7wupLd4Qdpzx4wKxPl6.Z.ZzRTsx4zuGsu0bOHwUB1wPbsIVohC'
    /** Of another one. */
    const changed = '$2b$04$quZiFl6D8jJzmOeLsujp5.dJlLCIP1EttXbtJIh2JciOwQ1JaVK8W'
    const users = join(t.testdir(), 'users')
    const yaml = (...names: string[]) => yamlOf(names.map(name => `${name}:${hash}\n`).join(''))
    const yamlOf = (text: string) => {
      writeFileSync(users, text)
      return `clients: [{ name: people, basic: { htpasswd_file: ${users} }, rules: all }]\n${LOOPBACK_RULES}`
    }
    const proxy = await testProxy(t, yaml('ann', 'bob'))
    const tunnel = async (name: string) => {
      const client = await rawClient(t, proxy.port)
      const credentials = Buffer.from(`${name}:secret`).toString('base64')
      client.write(
        `CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\nProxy-Authorization: Basic ${credentials}\r\n\r\n`,
      )
      await client.until('\r\n\r\n')
      return { client, upstream: await origin.accept() }
    }
    const ann = await Promise.all(Array.from({ length: 25 }, () => tunnel('ann')))
    const bob = await tunnel('bob')
    t.match(await proxy.reload(yaml('bob')), { closedTunnels: 25 }, 'more than may be wrong in a minute')
    for (const { client } of ann) t.equal(await client.untilEnd(), '')
    t.ok(await passes(bob), 'which costs nobody else at that address anything')
    t.ok(await passes(await tunnel('bob')))

    await proxy.reload(yaml('ann', 'bob'))
    const again = await tunnel('ann')
    t.match(await proxy.reload(yamlOf(`ann:${hash}\nbob:${changed}\n`)), { closedTunnels: 2 })
    t.equal(await bob.client.untilEnd(), '', 'whose password is another one now')
    t.ok(await passes(again))
    t.match(await proxy.reload('clients: [{ name: far, cidr: ["10.0.0.0/8"], rules: all }]\n'), {
      closedTunnels: 1,
    })
  },
)

t.test('if sni: verify is added, tunnels that were not verified are closed', async t => {
  const proxy = await testProxy(t)
  const { client } = await openTunnel(t, proxy)
  t.match(await proxy.reload(`connect: { sni: verify }\n${LOOPBACK_RULES}`), { closedTunnels: 1 })
  t.equal(await client.untilEnd(), '')
})

t.test(
  'a reload does not check passwords again that are unchanged, and checks any number of others',
  async t => {
    const origin = await rawOrigin(t)
    const users = join(t.testdir(), 'users')
    /** Both of the password "secret", at the lowest cost. */
    const first = '$2b$04$DP7wupLd4Qdpzx4wKxPl6.Z.ZzRTsx4zuGsu0bOHwUB1wPbsIVohC'
    const second = '$2b$04$LbLYQ13DV/oosllE89ZxIOEa2cRzk.RruQCvJayz0qOL2dJWAN/m2'
    const names = Array.from({ length: 80 }, (_, i) => `user${i}`)
    const yaml = (hash: string, note: string) => {
      writeFileSync(users, names.map(name => `${name}:${hash}\n`).join(''))
      return `error_note: ${note}\nclients: [{ name: people, basic: { htpasswd_file: ${users} }, rules: all }]\n${LOOPBACK_RULES}`
    }
    const proxy = await testProxy(t, yaml(first, 'one'))
    const tunnels: { client: RawPeer; upstream: RawPeer }[] = []
    for (const name of names) {
      const client = await rawClient(t, proxy.port)
      const credentials = Buffer.from(`${name}:secret`).toString('base64')
      client.write(
        `CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\nProxy-Authorization: Basic ${credentials}\r\n\r\n`,
      )
      await client.until('\r\n\r\n')
      tunnels.push({ client, upstream: await origin.accept() })
    }
    t.match(await proxy.reload(yaml(first, 'two')), { closedTunnels: 0 })
    t.match(
      await proxy.reload(yaml(second, 'two')),
      { closedTunnels: 0 },
      'another hash of the same password',
    )
    for (const tunnel of tunnels) t.ok(await passes(tunnel))
  },
)

t.test(
  'a tunnel that is being opened is judged by the configuration that is current when it is established',
  async t => {
    const origin = await rawOrigin(t)
    let resolve = (_addresses: string[]): void => {}
    let asked = (): void => {}
    const isAsked = new Promise<void>(done => {
      asked = done
    })
    const lookup = () => {
      asked()
      return new Promise<string[]>(done => {
        resolve = done
      })
    }
    const rules = (host: string) =>
      `rules: { some: { hosts: ["${host}"], ports: [any], addresses: ["127.0.0.1"] } }\n`
    const proxy = await testProxy(t, rules('a.test'), { lookup })
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT a.test:${origin.port} HTTP/1.1\r\nHost: h\r\n\r\n`)
    await isAsked
    t.match(await proxy.reload(rules('b.test')), { closedTunnels: 0 })
    resolve(['127.0.0.1'])
    const upstream = await origin.accept()
    t.equal(await upstream.untilEnd(), '')
    t.equal(await client.untilEnd(), 'HTTP/1.1 200 Connection established\r\n\r\n')
    t.match(await proxy.event('close'), { close_reason: 'policy' })
  },
)

t.test('limits and settings of the new configuration apply, those read at the start are named', async t => {
  const proxy = await testProxy(t)
  const result = await proxy.reload(
    `${LOOPBACK_RULES}listen: { proxy: ["127.0.0.1:1"], admin: false }\nlimits: { target_bytes: 256B }\n` +
      'error_note: Ask ann.\ntrace: { enabled: true }\n',
  )
  t.same(result, { needsRestart: ['listen.proxy', 'listen.admin'], closedTunnels: 0 })
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://a.test/${'x'.repeat(300)} HTTP/1.1\r\nHost: h\r\n\r\n`)
  const refused = await readResponse(client, 'GET')
  t.equal(refused.status, 414)
  t.match(refused.body, 'Ask ann.')
  t.equal(await status(t, proxy, 'TRACE / HTTP/1.1'), 200)
})

t.test('keys that need a restart are reported as long as they differ from the start', async t => {
  const proxy = await testProxy(t)
  const moved = `${LOOPBACK_RULES}listen: { proxy: ["127.0.0.1:1"], admin: "127.0.0.1:0" }\n`
  for (const more of ['', 'via: other\n']) {
    t.match(await proxy.reload(moved + more), { needsRestart: ['listen.proxy'] })
  }
  t.same((await proxy.reload(LOOPBACK_RULES)).needsRestart, [])
})

t.test(
  'a client loses its tunnels when its certificate is revoked, or its authority removed; others keep theirs',
  { skip: needs('openssl') },
  async t => {
    const folder = t.testdir()
    const [server, ca, other] = ['server', 'clients', 'other'].map(name => Authority.make(folder, name))
    if (server === undefined || ca === undefined || other === undefined) throw new Error('three were made')
    const { certFile, keyFile } = server.issue({ san: 'DNS:localhost' })
    const [kept, revoked, strange] = [ca.issue(), ca.issue(), other.issue()]
    const [authorities, lists] = [join(folder, 'authorities'), join(folder, 'lists')]
    const yaml = (ca: string, crl: string) => {
      writeFileSync(authorities, ca)
      writeFileSync(lists, crl)
      const tls = `{ address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile}, client_ca: ${authorities}, crl: ${lists} }`
      return `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0", tls: ${tls} }
clients: [{ name: some, certificate: { subject: ["*"] } }, { name: near, cidr: ["127.0.0.2"] }]
${LOOPBACK_RULES}`
    }
    const none = ca.revoke([]) + other.revoke([])
    const proxy = await testProxy(t, yaml(ca.cert + other.cert, none))
    const origin = await rawOrigin(t)
    const connect = ({ cert, key }: typeof kept) =>
      tlsClient(t, proxy.tlsPort, { ca: server.cert, cert, key })
    const tunnel = async (client: RawPeer) => {
      client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
      t.equal((await readResponse(client)).status, 200)
      return { client, upstream: await origin.accept() }
    }
    const tunnels: { client: RawPeer; upstream: RawPeer }[] = []
    for (const client of [kept, revoked, strange]) tunnels.push(await tunnel(await connect(client)))
    const [stays, isRevoked, isStrange] = tunnels
    if (stays === undefined || isRevoked === undefined || isStrange === undefined) throw new Error('three')
    t.match(await proxy.reload(yaml(ca.cert + other.cert, ca.revoke([]) + other.revoke([]))), {
      closedTunnels: 0,
    })

    const one = ca.revoke([revoked])
    t.match(await proxy.reload(yaml(ca.cert + other.cert, one + other.revoke([]))), {
      closedTunnels: 1,
      needsRestart: [],
    })
    t.equal(await isRevoked.client.untilEnd(), '')
    t.match(await proxy.event('close'), { close_reason: 'policy' })
    t.ok(await passes(stays))
    t.ok(await passes(isStrange))

    t.match(await proxy.reload(yaml(ca.cert, one)), { closedTunnels: 1 })
    t.equal(await isStrange.client.untilEnd(), '')
    t.ok(await passes(stays))
    for (const client of [revoked, strange]) {
      const again = await connect(client)
      again.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
      t.equal((await readResponse(again)).status, 403)
    }
  },
)

t.test(
  'changed authorities or lists end connections that use a certificate, each after its response',
  { skip: needs('openssl') },
  async t => {
    const folder = t.testdir()
    const [server, ca] = [Authority.make(folder, 'server'), Authority.make(folder, 'clients')]
    const { certFile, keyFile } = server.issue({ san: 'DNS:localhost' })
    const lists = join(folder, 'lists')
    const yaml = (crl: string) => {
      writeFileSync(lists, crl)
      const tls = `{ address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile}, client_ca: ${ca.certFile}, crl: ${lists} }`
      return `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0", tls: ${tls} }\n${LOOPBACK_RULES}`
    }
    const list = ca.revoke([])
    const proxy = await testProxy(t, yaml(list))
    const origin = await rawOrigin(t)
    const request = `GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`
    const open = async (certificate: Partial<{ cert: string; key: string }>) => {
      const client = await tlsClient(t, proxy.tlsPort, { ca: server.cert, ...certificate })
      client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
      await readResponse(client, 'OPTIONS')
      return client
    }
    const { cert, key } = ca.issue()
    const [idle, half, busy, without] = [
      await open({ cert, key }),
      await open({ cert, key }),
      await open({ cert, key }),
      await open({}),
    ]
    busy.write(request)
    const upstream = await origin.accept()
    await upstream.until('\r\n\r\n')
    half.write(request.slice(0, 20))
    // After it, everything sent before has arrived.
    without.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
    await readResponse(without, 'OPTIONS')
    await proxy.reload(yaml(list))
    await proxy.reload(yaml(ca.revoke([])))
    t.equal(await idle.untilEnd(), '')
    t.equal(await half.untilEnd(), '')
    upstream.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const last = await busy.untilEnd()
    t.match(last, /^HTTP\/1\.1 200 OK\r\n/)
    t.match(last, /\r\nConnection: close\r\n/i)
    without.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
    t.equal((await readResponse(without, 'OPTIONS')).status, 200)
  },
)

t.test('certificates of the TLS listener are those of the new files', { skip: needs('openssl') }, async t => {
  const folder = t.testdir()
  const [first, second] = [Authority.make(folder, 'first'), Authority.make(folder, 'second')]
  const listen = (ca: Authority) => {
    const { certFile, keyFile } = ca.issue({ san: 'DNS:localhost' })
    return `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0", tls: { address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile} } }\n`
  }
  const proxy = await testProxy(t, listen(first))
  const ask = async (ca: Authority) => {
    const client = await tlsClient(t, proxy.tlsPort, { ca: ca.cert })
    client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
    return (await readResponse(client, 'OPTIONS')).status
  }
  t.equal(await ask(first), 200)
  await proxy.reload(listen(second))
  t.equal(await ask(second), 200)
  await t.rejects(ask(first))
})
