import t from 'tap'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { testProxy } from '../kit/proxies/test-proxy.js'
import { ANSWERS, POLICIES, REFUSED } from './bypass-table.js'

/** A public address, for every name that has no other. */
const PUBLIC = '93.184.216.34'

const head = (target: string): string =>
  /^(?:https?|file|gopher|ftp):/.test(target)
    ? `GET ${target} HTTP/1.1\r\nHost: allowed.example\r\n\r\n`
    : `CONNECT ${target} HTTP/1.1\r\nHost: allowed.example\r\n\r\n`

for (const { trick, policy, status, reason, targets } of REFUSED) {
  t.test(`${trick}: ${status}`, async t => {
    const dial = dialled()
    const asked: string[] = []
    const proxy = await testProxy(t, POLICIES[policy], {
      connector: dial.connector,
      lookup: async name => {
        asked.push(name)
        return ANSWERS[name] ?? [PUBLIC]
      },
    })
    for (const [index, target] of targets.entries()) {
      const client = await rawClient(t, proxy.port)
      client.write(head(target))
      const shown = JSON.stringify(target)
      t.match(await client.until('\r\n'), new RegExp(`^HTTP/1\\.1 ${status} Sluice: `), shown)
      client.destroy()
      const { decision, reason: logged } = await proxy.event('decision', index + 1)
      t.equal(decision, 'deny', shown)
      t.equal(logged, reason, shown)
    }
    t.same(dial.targets, [], 'nothing is dialled')
    const known = asked.filter(name => Object.hasOwn(ANSWERS, name))
    t.same(asked, known, 'and no name asked for that a rule does not allow')
  })
}

/** Allows every name, and any address of loopback for the servers of the test. */
function permissive(...names: string[]): string {
  return `rules: { test: { hosts: [${names.join(', ')}], ports: [any], addresses: ["127.0.0.0/8"] }, web: { hosts: ["*"], ports: [any] } }`
}

t.test(
  'rebinding, an answer that changes between two requests: each answer is judged, and dialled as judged',
  async t => {
    const origin = await rawOrigin(t)
    const answers = [[PUBLIC], ['127.0.0.1'], [PUBLIC]]
    const dial = dialled(toLoopback(origin.port))
    const proxy = await testProxy(t, `${POLICIES.names}\ndns: { min_ttl: 0s }`, {
      connector: dial.connector,
      lookup: async () => answers.shift() ?? [],
    })
    const statuses: string[] = []
    for (const _ of [1, 2, 3]) {
      const client = await rawClient(t, proxy.port)
      client.write(head('rebind.test:443'))
      statuses.push((await client.until('\r\n')).slice(9, 12))
      client.destroy()
    }
    t.same(statuses, ['200', '403', '200'])
    t.same(
      dial.targets,
      [`${PUBLIC} 443`, `${PUBLIC} 443`],
      'what was judged is what is dialled, one query each',
    )
  },
)

t.test('a redirect to an internal address: forwarded, and 403 when the client follows it', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, permissive('app.test'), { lookup: async () => ['127.0.0.1'] })
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://app.test:${origin.port}/ HTTP/1.1\r\nHost: app.test\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n')
  t.match(await readResponse(client), { status: 302, fields: { location: 'http://169.254.169.254/' } })
  client.write('GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n')
  t.equal((await readResponse(client)).status, 403)
})

t.test(
  'Host, or a Connection that names Host, against the target: the target decides, and Host is derived from it',
  async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, permissive('app.test'), { lookup: async () => ['127.0.0.1'] })
    const client = await rawClient(t, proxy.port)
    const authority = `app.test:${origin.port}`
    for (const connection of ['Connection: Host\r\n', 'Connection: close, host\r\n', '']) {
      const asker = await rawClient(t, proxy.port)
      asker.write(`GET http://${authority}/ HTTP/1.1\r\nHost: 169.254.169.254\r\n${connection}\r\n`)
      const peer = await origin.accept()
      const sent = await peer.until('\r\n\r\n')
      t.match(sent, new RegExp(`\r\nHost: ${authority}\r\n`, 'i'))
      t.equal(sent.match(/^host:/gim)?.length, 1)
      t.notMatch(sent, '169.254.169.254')
      peer.destroy()
      asker.destroy()
    }
    client.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')
    t.equal((await readResponse(client)).status, 404, 'origin-form goes nowhere by its Host')
  },
)

t.test('a second Host, or an invalid one: 400', async t => {
  const proxy = await testProxy(t, POLICIES.names, { connector: dialled().connector })
  for (const hosts of [
    'Host: a.example\r\nHost: b.example\r\n',
    'Host: a.example, b.example\r\n',
    'Host: a@b\r\n',
    '',
  ]) {
    const client = await rawClient(t, proxy.port)
    client.write(`GET http://a.example/ HTTP/1.1\r\n${hosts}\r\n`)
    t.match(await client.until('\r\n'), 'HTTP/1.1 400 ')
  }
})

t.test('an open connection made under the exception of another host: not used, 403', async t => {
  const origin = await rawOrigin(t)
  const yaml = `rules: { in: { hosts: [in.test], ports: [any], addresses: ["127.0.0.1"] }, web: { hosts: ["*"], ports: [any] } }`
  const proxy = await testProxy(t, yaml, { lookup: async () => ['127.0.0.1'] })
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://in.test:${origin.port}/ HTTP/1.1\r\nHost: in.test\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  t.equal((await readResponse(client)).status, 200)
  client.write(`GET http://out.test:${origin.port}/ HTTP/1.1\r\nHost: out.test\r\n\r\n`)
  const refused = await readResponse(client)
  t.equal(refused.status, 403)
  t.match(refused.body, 'out.test resolved to 127.0.0.1')
  t.equal(peer.received, '')
})

t.test(
  'the proxy’s own listeners, at all of their addresses: 403, and 508 for a request that would loop',
  async t => {
    const yaml =
      'rules: { every: { hosts: ["*", "0.0.0.0/0", "::/0"], ports: [any], addresses: ["127.0.0.0/8", "0.0.0.0/32", "::/128", "::1"] } }'
    const proxy = await testProxy(t, yaml, { lookup: async () => ['127.0.0.1'] })
    const { port, adminPort } = proxy
    for (const host of ['self.test', '127.0.0.1', '0.0.0.0', '[::]', '[::ffff:127.0.0.1]']) {
      for (const [own, status] of [
        [port, 508],
        [adminPort, 403],
      ]) {
        const tunnel = await rawClient(t, port)
        tunnel.write(`CONNECT ${host}:${own} HTTP/1.1\r\nHost: x\r\n\r\n`)
        t.match(await tunnel.until('\r\n'), 'HTTP/1.1 403 ', `CONNECT ${host}`)
        const client = await rawClient(t, port)
        client.write(`GET http://${host}:${own}/ready HTTP/1.1\r\nHost: x\r\n\r\n`)
        t.match(await client.until('\r\n'), `HTTP/1.1 ${status} `, `GET ${host}`)
      }
    }
  },
)

t.test('a request after a CONNECT that is refused: never read', async t => {
  const dial = dialled()
  const proxy = await testProxy(t, POLICIES.narrow, { connector: dial.connector })
  const client = await rawClient(t, proxy.port)
  client.write(
    'CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\nGET http://allowed.example/ HTTP/1.1\r\nHost: x\r\n\r\n',
  )
  const answer = await client.untilEnd()
  t.equal(answer.match(/HTTP\/1\.1/g)?.length, 1)
  t.match(answer, 'HTTP/1.1 403 ')
  t.same(dial.targets, [])
})

t.test('requests with two lengths, or with a disguised transfer coding: 400 or 501', async t => {
  const dial = dialled()
  const proxy = await testProxy(t, POLICIES.names, {
    connector: dial.connector,
    lookup: async () => [PUBLIC],
  })
  for (const framing of [
    'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n',
    'Content-Length: 5\r\nContent-Length: 6\r\n',
    'Transfer-Encoding: xchunked\r\n',
    'Transfer-Encoding : chunked\r\n',
    'Transfer-Encoding: chunked, chunked\r\n',
    'Content-Length: +5\r\n',
  ]) {
    const client = await rawClient(t, proxy.port)
    client.write(`POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n${framing}\r\n0\r\n\r\n`)
    t.match(await client.until('\r\n'), /^HTTP\/1\.1 (?:400|501) /, framing)
  }
  t.same(dial.targets, [])
})
