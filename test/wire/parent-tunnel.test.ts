/** CONNECT through a parent proxy: what it receives, how its responses are handled, and whose bytes are whose. */
import t, { type Test } from 'tap'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { ANY_HOST, behindParent, connectTo } from '../kit/proxies/setups.js'
import { clientHello } from '../kit/peers/client-hello.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { turns } from '../kit/peers/until-stable.js'

const OK = 'HTTP/1.1 200 OK\r\n\r\n'

t.test(
  'a CONNECT is forwarded, and its bytes are the tunnel, in both directions (RFC 9110 §9.3.6)',
  async t => {
    const { parent, proxy, client, resolved } = await behindParent(t)
    client.write(`${connectTo('A.Test:443', 'Via: 1.0 first\r\nUser-Agent: x\r\n')}early`)
    const peer = await parent.accept()
    t.equal(
      await peer.until('\r\n\r\n'),
      'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nVia: 1.0 first, 1.1 here\r\n\r\n',
    )
    t.same([client.received, peer.received], ['', ''], 'nothing goes either way before the parent agrees')
    peer.write(`${OK}first`)
    t.equal(await client.until('first'), `${ESTABLISHED}first`)
    t.equal(await peer.until('early'), 'early')
    client.write('up')
    t.equal(await peer.until('up'), 'up')
    client.end()
    t.equal(await peer.untilEnd(), '', 'a half-close is one')
    peer.write('last')
    peer.end()
    t.equal(await client.untilEnd(), 'last')
    t.same(resolved, [], 'no name was resolved here')
    t.match(await proxy.event('decision'), { decision: 'allow', host: 'a.test', dns_ms: undefined })
    t.match(await proxy.event('close'), {
      handler: 'tunnel',
      status: 200,
      close_reason: 'complete',
      address: parent.authority,
      parent: `http://${parent.authority}`,
      bytes_up: 7,
      bytes_down: 9,
    })
  },
)

t.test('no name reaches a listener of this proxy through a parent on this machine', async t => {
  const { parent, proxy, client } = await behindParent(t)
  client.write(connectTo(`box.test:${proxy.port}`))
  const response = await readResponse(client)
  t.equal(response.status, 403)
  t.match(response.body, 'parent.no_proxy')
  t.match(await proxy.event('close'), { reason: 'own_address' })
  t.equal(parent.accepted, 0)
})

t.test('a response may arrive in pieces, and its framing fields are ignored', async t => {
  const { parent, client } = await behindParent(t)
  client.write(connectTo('a.test:443'))
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  const answer = 'HTTP/1.0 200\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc'
  for (const byte of answer) {
    peer.write(byte)
    await turns(2)
  }
  t.equal(await client.until('abc'), `${ESTABLISHED}5\r\nabc`)
})

t.test('a parent that closes right after its 2xx closes that direction of the tunnel', async t => {
  const { parent, client } = await behindParent(t)
  client.write(connectTo('a.test:443'))
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  peer.write(`${OK}bye`)
  peer.end()
  t.equal(await client.untilEnd(), `${ESTABLISHED}bye`)
  client.write('still')
  t.equal(await peer.until('still'), 'still')
})

t.test('interim responses are skipped, up to a limit', async t => {
  const { parent, proxy, client } = await behindParent(t)
  client.write(connectTo('a.test:443'))
  const peer = await parent.accept()
  peer.write(`${'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n'.repeat(100)}${OK}`)
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  const other = await rawClient(t, proxy.port)
  other.write(connectTo('a.test:443'))
  const second = await parent.accept()
  second.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(101))
  t.match(await readResponse(other), { status: 502, reason: /too many interim responses/ })
})

/** The response for a client whose CONNECT the parent answers with these bytes. */
async function answered(t: Test, bytes: string, keys = '') {
  const { parent, proxy, client } = await behindParent(t, keys)
  client.write(`${connectTo('a.test:443')}GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n`)
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  peer.write(bytes)
  const response = await readResponse(client)
  t.equal(await client.untilEnd(), '', 'what came behind the CONNECT is not read')
  t.equal(await peer.untilEnd(), '', 'and the parent is sent nothing more')
  const close = await proxy.event('close')
  t.match(close, { address: parent.authority, parent: `http://${parent.authority}`, connect_ms: Number })
  return { response, close, proxy }
}

t.test('a refusal by the parent is 502, and says that it was the parent', async t => {
  for (const [status, phrase, reason] of [
    [403, 'Filtered', 'parent_refused'],
    [302, 'Found', 'parent_refused'],
    [503, 'Busy\xff', 'parent_failed'],
  ] as const) {
    const { response, close, proxy } = await answered(
      t,
      `HTTP/1.1 ${status} ${phrase}\r\nContent-Length: 9\r\n\r\nnot yours`,
    )
    t.equal(response.status, 502)
    t.equal(response.reason, `Sluice: the parent proxy answered ${status}`)
    t.match(
      response.fields['proxy-status'],
      `sluice;error=connection_refused;details="the parent proxy answered ${status}"`,
    )
    t.match(response.body, `answered ${status} (${phrase.replace('\xff', '?')})`)
    t.notMatch(response.body, 'not yours')
    t.match(close, { status: 502, error: 'connection_refused', reason })
    const metrics = await proxy.metrics()
    t.same(metrics.counted('sluice_failures_total'), { [`sluice_failures_total{reason="${reason}"}`]: 1 })
    t.same(metrics.counted('sluice_dial_errors_total'), {}, 'the connection to the parent was established')
  }
})

t.test('its 407 is 502 with advice, and its challenge is not forwarded to the client', async t => {
  const challenge = 'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="p"\r\nContent-Length: 0\r\n\r\n'
  const { response, close } = await answered(t, challenge)
  t.equal(response.status, 502)
  t.notOk('proxy-authenticate' in response.fields)
  t.match(response.body, 'write them as user:password to a file, and set parent.basic_file to its path')
  t.match(close, { reason: 'parent_credentials' })
  const folder = t.testdir({ pass: 'me:secret\n' })
  const shown = await answered(t, challenge, `, basic_file: "${folder}/pass"`)
  t.equal(shown.response.status, 502)
  t.match(
    shown.response.body,
    'did not accept the name and password in the file that parent.basic_file names',
  )
})

t.test('a response that is not HTTP/1.1 is 502', async t => {
  for (const [bytes, reason] of [
    ['HTTP/2.0 200 OK\r\n\r\n', /bad status line/],
    ['SSH-2.0-x\r\n', /bad status line/],
    ['HTTP/1.1 200 OK\n\n', /bare CR or LF in a response/],
    ['HTTP/1.1 200 OK\r\nA : b\r\n\r\n', /bad field name in a response/],
    ['HTTP/1.1 101 Switching Protocols\r\n\r\n', /status code 101/],
    [`HTTP/1.1 200 OK\r\nA: ${'b'.repeat(16_384)}\r\n\r\n`, /header section too large/],
  ] as const) {
    const { response } = await answered(t, bytes)
    t.equal(response.status, 502, bytes)
    t.match(response.reason, reason)
  }
})

t.test('a parent that closes without a response is 502, one that does not answer 504', async t => {
  const { parent, client } = await behindParent(t)
  client.write(connectTo('a.test:443'))
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  peer.end()
  t.match(await readResponse(client), { status: 502, reason: /closed without a response/ })
  const slow = await behindParent(t, '', `limits: { response_timeout: 20ms }\n${ANY_HOST}`)
  slow.client.write(connectTo('a.test:443'))
  t.match(await readResponse(slow.client), { status: 504, reason: /no response to CONNECT in time/ })
  const silent = await slow.parent.accept()
  await silent.untilEnd()
})

t.test('a client that disconnects before the parent answers ends the connection', async t => {
  const { parent, proxy, client } = await behindParent(t)
  client.write(connectTo('a.test:443'))
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  client.destroy()
  await peer.untilEnd()
  t.match(await proxy.event('close'), { close_reason: 'client_gone', status: 0 })
})

t.test('credentials go to the parent, and are not logged; those of the client are not forwarded', async t => {
  const folder = t.testdir({ pass: 'me:p\u00e4ss:word\n' })
  const { parent, proxy, client } = await behindParent(t, `, basic_file: "${folder}/pass"`)
  client.write(connectTo('a.test:443', 'Proxy-Authorization: Basic bWluZTptaW5l\r\n'))
  const peer = await parent.accept()
  const value = Buffer.from('me:p\u00e4ss:word').toString('base64')
  t.equal(
    await peer.until('\r\n\r\n'),
    `CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nVia: 1.1 here\r\nProxy-Authorization: Basic ${value}\r\n\r\n`,
  )
  peer.write(OK)
  await client.until('\r\n\r\n')
  client.end()
  peer.end()
  await proxy.event('close')
  t.notMatch(JSON.stringify(proxy.events), 'word')
  t.notMatch(JSON.stringify(proxy.events), value)
})

t.test('a CONNECT that returns is not forwarded again (RFC 9110 §7.6.3)', async t => {
  const { parent, client } = await behindParent(t)
  client.write(connectTo('a.test:443', 'Via: 1.1 here, 1.1 there\r\n'))
  t.match(await readResponse(client), { status: 403, reason: /forwarding loop/ })
  t.equal(parent.accepted, 0)
})

t.test('sni: verify applies through a parent, also for a host that speaks first', async t => {
  const yaml = `connect: { sni: verify }\n${ANY_HOST}`
  const { parent, proxy, client } = await behindParent(t, '', yaml)
  client.write(connectTo('a.test:443'))
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  peer.write(`${OK}greeting`)
  await client.until('\r\n\r\n')
  await turns()
  t.equal(client.received, '')
  const hello = clientHello('a.test')
  client.write(hello)
  t.equal(await peer.until(hello.length), hello.toString('latin1'))
  t.equal(await client.until('greeting'), 'greeting')
  const wrong = await rawClient(t, proxy.port)
  wrong.write(connectTo('a.test:443'))
  const second = await parent.accept()
  await second.until('\r\n\r\n')
  second.write(OK)
  await wrong.until('\r\n\r\n')
  wrong.write(clientHello('b.test'))
  wrong.end()
  t.equal(await second.untilEnd(), '')
  t.match(await proxy.event('close'), { close_reason: 'server_name', reason: 'sni_mismatch' })
})

/** limits.response_timeout, held. */
const RESPONSE_MS = 7_654_321

t.test(
  'limits.response_timeout ends with the response of the parent, and does not apply to the tunnel',
  async t => {
    const timers = pauseTimers(t, RESPONSE_MS)
    const yaml = `${ANY_HOST}limits: { response_timeout: ${RESPONSE_MS}ms }\n`
    const { parent, proxy, client } = await behindParent(t, '', yaml)
    client.write(connectTo('a.test:443'))
    const peer = await parent.accept()
    await peer.until('\r\n\r\n')
    t.equal(timers.running, 1)
    peer.write(OK)
    await client.until(ESTABLISHED)
    t.same([timers.set, timers.running], [1, 0])
    const other = await rawClient(t, proxy.port)
    other.write(connectTo('a.test:443'))
    const refusing = await parent.accept()
    await refusing.until('\r\n\r\n')
    refusing.write('HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n')
    t.equal((await readResponse(other)).status, 502)
    t.same([timers.set, timers.running], [2, 0])
    const third = await rawClient(t, proxy.port)
    third.write(connectTo('a.test:443'))
    const silent = await parent.accept()
    await silent.until('\r\n\r\n')
    await timers.fire()
    t.equal((await readResponse(third)).status, 504)
    t.equal(await silent.untilEnd(), '')
    t.same([timers.set, timers.running], [3, 0])
  },
)
