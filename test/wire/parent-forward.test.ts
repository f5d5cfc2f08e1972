/** http:// requests through a parent proxy: absolute-form on the wire, and where credentials are sent. */
import t from 'tap'
import { ANY_HOST, behindParent, connectTo } from '../kit/proxies/setups.js'
import { dialled } from '../kit/fakes/dialled.js'
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { OK } from '../kit/peers/responses.js'

t.test('a request is forwarded in absolute-form (RFC 9112 §3.2.2)', async t => {
  const { parent, proxy, client, resolved } = await behindParent(t)
  client.write(
    'GET http://A.test:8080/p?q HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic bWU6bWU=\r\nVia: 1.0 first\r\nA: b\r\n\r\n',
  )
  const peer = await parent.accept()
  const head = await peer.until('\r\n\r\n')
  t.match(head, /^GET http:\/\/A\.test:8080\/p\?q HTTP\/1\.1\r\nhost: A\.test:8080\r\n/i)
  t.match(head, '\r\nVia: 1.0 first\r\nA: b\r\nVia: 1.1 here\r\n')
  t.notMatch(head, /proxy-authorization/i)
  peer.write(OK)
  t.match(await readResponse(client), { status: 200, body: 'ok', fields: { via: '1.1 here' } })
  t.same(resolved, [])
  t.match(await proxy.event('close'), {
    handler: 'forward',
    address: parent.authority,
    parent: `http://${parent.authority}`,
  })
})

t.test('one connection of the parent serves every host', async t => {
  const { parent, client } = await behindParent(t)
  let peer: RawPeer | undefined
  for (const host of ['a.test', 'b.test:81', '192.0.2.7']) {
    client.write(`GET http://${host}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
    peer ??= await parent.accept()
    t.match(await peer.until('\r\n\r\n'), `GET http://${host}/ HTTP/1.1\r\n`)
    peer.write(OK)
    t.equal((await readResponse(client)).status, 200)
  }
  t.equal(parent.accepted, 1)
})

t.test('credentials are for the parent, and its 407 is 502 to the client', async t => {
  const folder = t.testdir({ pass: 'me:secret' })
  const { parent, proxy, client } = await behindParent(t, `, basic_file: "${folder}/pass"`)
  client.write(`GET http://a.test/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: x\r\n\r\n`)
  const peer = await parent.accept()
  const head = await peer.until('\r\n\r\n')
  t.match(head, '\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n')
  t.equal(head.match(/proxy-authorization/gi)?.length, 1)
  peer.write('HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="p"\r\nContent-Length: 3\r\n\r\nno!')
  const response = await readResponse(client)
  t.equal(response.status, 502)
  t.notOk('proxy-authenticate' in response.fields)
  t.match(response.body, 'parent.basic_file')
  t.notMatch(response.body, 'no!')
  t.equal(await peer.untilEnd(), '', 'that connection is not used any more')
  t.match(await proxy.event('close'), { status: 502, reason: 'parent_credentials' })
  t.notMatch(JSON.stringify(proxy.events), /secret|bWU6c2VjcmV0/)
})

t.test('a TRACE has no credentials that its response would reveal (RFC 9110 §9.3.8)', async t => {
  const folder = t.testdir({ pass: 'me:secret' })
  const yaml = `${ANY_HOST}trace: { enabled: true }\n`
  const { parent, client } = await behindParent(t, `, basic_file: "${folder}/pass"`, yaml)
  client.write('TRACE http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n')
  const peer = await parent.accept()
  const head = await peer.until('\r\n\r\n')
  t.match(head, /^TRACE http:\/\/a\.test\/ /)
  t.notMatch(head, /proxy-authorization/i)
  peer.write('HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="p"\r\nContent-Length: 0\r\n\r\n')
  const response = await readResponse(client)
  t.equal(response.status, 502)
  t.match(response.body, 'TRACE is sent without the name and password of parent.basic_file')
})

t.test('every other response of the parent is forwarded, also its 403 and 502', async t => {
  const { parent, client } = await behindParent(t)
  let peer: RawPeer | undefined
  for (const status of [403, 502, 504]) {
    client.write('GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n')
    peer ??= await parent.accept()
    await peer.until('\r\n\r\n')
    peer.write(`HTTP/1.1 ${status} Theirs\r\nContent-Length: 1\r\n\r\n!`)
    t.match(await readResponse(client), { status, reason: 'Theirs', body: '!' })
  }
})

t.test('content, trailers and interim responses are forwarded as usual', async t => {
  const { parent, client } = await behindParent(t)
  client.write(
    'POST http://a.test/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n',
  )
  const peer = await parent.accept()
  t.match(
    await peer.until('\r\n\r\n'),
    /^POST http:\/\/a\.test\/ HTTP\/1\.1\r\n[\s\S]*\r\nExpect: 100-continue\r\n/,
  )
  peer.write('HTTP/1.1 100 Continue\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 100 /)
  client.write('3\r\nabc\r\n0\r\nT: u\r\n\r\n')
  t.equal(await peer.until('T: u\r\n\r\n'), '3\r\nabc\r\n0\r\nT: u\r\n\r\n')
  peer.write(OK)
  t.equal((await readResponse(client)).status, 200)
})

t.test('OPTIONS of a server keeps its absolute-form, one hop fewer (RFC 9112 §3.2.4)', async t => {
  const { parent, client } = await behindParent(t)
  client.write('OPTIONS http://a.test HTTP/1.1\r\nHost: x\r\nMax-Forwards: 2\r\n\r\n')
  const peer = await parent.accept()
  const head = await peer.until('\r\n\r\n')
  t.match(head, /^OPTIONS http:\/\/a\.test HTTP\/1\.1\r\n/)
  t.match(head, '\r\nMax-Forwards: 1\r\n')
  peer.write(OK)
  await readResponse(client)
  client.write('OPTIONS http://a.test?x HTTP/1.1\r\nHost: x\r\n\r\n')
  t.match(await peer.until('\r\n\r\n'), /^OPTIONS http:\/\/a\.test\/\?x HTTP\/1\.1\r\n/)
  peer.write(OK)
  await readResponse(client)
  client.write('OPTIONS http://a.test HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n')
  t.match(await readResponse(client), { status: 200, fields: { allow: /GET/ } })
})

t.test('a websocket is requested in absolute-form, and becomes a tunnel', async t => {
  const { parent, proxy, client } = await behindParent(t)
  client.write(
    'GET http://a.test/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  )
  const peer = await parent.accept()
  const head = await peer.until('\r\n\r\n')
  t.match(head, /^GET http:\/\/a\.test\/ws HTTP\/1\.1\r\n/)
  t.match(head, '\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n')
  peer.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi')
  t.match(await client.until('hi'), /^HTTP\/1\.1 101 /)
  client.write('ho')
  t.equal(await peer.until('ho'), 'ho')
  client.end()
  peer.end()
  t.match(await proxy.event('close'), { status: 101, parent: String, bytes_up: 2 })
})

t.test('a request that has already passed this proxy is 508', async t => {
  const { parent, client } = await behindParent(t)
  client.write('GET http://a.test/ HTTP/1.1\r\nHost: x\r\nVia: 1.1 here\r\n\r\n')
  t.equal((await readResponse(client)).status, 508)
  t.equal(parent.accepted, 0)
})

t.test('hosts in no_proxy are connected to directly, with all checks, and share no connection', async t => {
  const { parent, proxy, client, resolved } = await behindParent(
    t,
    ', no_proxy: [".test", "in.example", "192.0.2.0/24", "127.0.0.1"]',
    'rules: { web: { hosts: ["*", "192.0.2.7", "127.0.0.1"], ports: ["any"], addresses: ["127.0.0.1"] } }\n',
  )
  const { port } = parent
  client.write('GET http://other.example/ HTTP/1.1\r\nHost: x\r\n\r\n')
  const first = await parent.accept()
  await first.until('\r\n\r\n')
  first.write(OK)
  await readResponse(client)
  // The parent's own address and port, to which a connection is open.
  client.write(`GET http://a.test:${port}/p HTTP/1.1\r\nHost: x\r\n\r\n`)
  const second = await parent.accept()
  t.match(await second.until('\r\n\r\n'), /^GET \/p HTTP\/1\.1\r\n/)
  second.write(OK)
  await readResponse(client)
  t.same(resolved, ['a.test'])
  t.notOk('parent' in (await proxy.event('close', 2)))
  client.write(`GET http://192.0.2.7:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
  t.match(
    await readResponse(client),
    { status: 403, reason: /class/ },
    'it is reserved, and no rule lists it',
  )
  const tunnel = await rawClient(t, proxy.port)
  tunnel.write(connectTo(`in.example:${port}`))
  const third = await parent.accept()
  await tunnel.until('\r\n\r\n')
  tunnel.write('x')
  t.equal(await third.until('x'), 'x')
  t.equal(first.received, '')
})

t.test('a suffix does not match its apex, and a CIDR matches no name', async t => {
  const { parent, proxy, resolved } = await behindParent(t, ', no_proxy: [".a.test", "127.0.0.0/8"]')
  for (const host of ['a.test', 'xa.test', 'b.test']) {
    const client = await rawClient(t, proxy.port)
    client.write(connectTo(`${host}:443`))
    const peer = await parent.accept()
    t.match(await peer.until('\r\n\r\n'), `CONNECT ${host}:443 `)
  }
  t.same(resolved, [])
})

t.test('names are judged as usual, and addresses as hosts', async t => {
  const { targets, connector } = dialled()
  const yaml = `deny: { hosts: [bad.test], addresses: ["192.0.2.0/24"] }\n${ANY_HOST}`
  const { proxy } = await behindParent(t, '', yaml, { connector })
  for (const [authority, reason] of [
    ['bad.test:443', /deny\.hosts refuses/],
    ['192.0.2.7:443', /deny\.addresses refuses/],
    ['10.0.0.1:443', /no rule allows/],
    ['localhost:443', /no rule allows/],
    [`127.0.0.1:${proxy.port}`, /is this proxy itself/],
    [`127.0.0.1:${proxy.adminPort}`, /is the admin listener/],
  ] as const) {
    const client = await rawClient(t, proxy.port)
    client.write(connectTo(authority))
    t.match(await readResponse(client), { status: 403, reason }, authority)
  }
  t.same(targets, [])
})

t.test('a name that addresses_only pins is refused, unless no_proxy names it', async t => {
  const yaml =
    'rules: { web: { hosts: ["*"], ports: ["any"] }, in: { hosts: ["*.in.test", "127.0.0.1"], ports: ["any"], addresses: ["127.0.0.1"], addresses_only: true } }\n'
  const { parent, proxy } = await behindParent(t, ', no_proxy: [b.in.test]', yaml)
  for (const request of [connectTo('a.in.test:443'), 'GET http://a.in.test/ HTTP/1.1\r\nHost: x\r\n\r\n']) {
    const client = await rawClient(t, proxy.port)
    client.write(request)
    const response = await readResponse(client)
    t.equal(response.status, 403)
    t.match(response.reason, /rules\.in\.addresses_only refuses a\.in\.test:\d+ through parent/)
    t.match(response.body, 'Add a.in.test to parent.no_proxy')
  }
  const direct = await rawClient(t, proxy.port)
  direct.write(connectTo(`b.in.test:${parent.port}`))
  await direct.until('\r\n\r\n')
  await parent.accept()
  const literal = await rawClient(t, proxy.port)
  literal.write(connectTo('127.0.0.1:9'))
  const peer = await parent.accept()
  t.match(await peer.until('\r\n\r\n'), 'CONNECT 127.0.0.1:9 HTTP/1.1\r\n')
})
