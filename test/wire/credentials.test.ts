/** Clients that authenticate with Proxy-Authorization: the responses, byte for byte. */
import { hashSync } from 'bcryptjs'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import type { PasswordQuestion } from '../../src/clients/bcrypt-worker.js'
import { FailedAttempts } from '../../src/clients/failed-attempts.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { until } from '../kit/until.js'

const CHALLENGE = 'Basic realm="Sluice", charset="UTF-8"'
const H = 'Host: h\r\n'

async function guarded(t: Test, clients = '', environment = {}) {
  const folder = t.testdir({
    users: `ann:${hashSync('open sesame', 4)}\nübel:${hashSync('pass:wörd', 4)}\n`,
  })
  const yaml = `${LOOPBACK_RULES}clients:\n${clients}  - { name: team, basic: { htpasswd_file: "${folder}/users" } }\n`
  return testProxy(t, yaml, { wallClock: WALL_CLOCK, ...environment })
}

const credentials = (userPass: string) =>
  `Proxy-Authorization: Basic ${Buffer.from(userPass).toString('base64')}\r\n`
const RIGHT = credentials('ann:open sesame')

const connectTo = (authority: string, fields = '', version = '1.1') =>
  `CONNECT ${authority} HTTP/${version}\r\nHost: ${authority}\r\n${fields}\r\n`
const get = (authority: string, fields = '', version = '1.1') =>
  `GET http://${authority}/ HTTP/${version}\r\nHost: ${authority}\r\n${fields}\r\n`

/** Reads a 407 and checks that it is one. */
async function challenged(t: Test, client: RawPeer, close: boolean, method = 'GET') {
  const response = await readResponse(client, method)
  checkRefusal(t, response, { status: 407, close, method })
  t.equal(response.fields['proxy-authenticate'], CHALLENGE)
  return response
}

t.test('a CONNECT is answered 407, and on the same connection with a tunnel (RFC 9110 §11.7.1)', async t => {
  const origin = await rawOrigin(t)
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  client.write(connectTo(origin.authority))
  await challenged(t, client, false)
  client.write(connectTo(origin.authority, RIGHT))
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
  const peer = await origin.accept()
  client.write('up')
  peer.write('down')
  t.equal(await peer.until(2), 'up', 'and nothing before it: no credential')
  t.equal(await client.until(4), 'down')
  t.equal(origin.accepted, 1)
})

t.test('bytes after a refused CONNECT are not a request: 407 and close (RFC 9110 §9.3.6)', async t => {
  const origin = await rawOrigin(t)
  const proxy = await guarded(t)
  for (const behind of [
    get(origin.authority, RIGHT),
    connectTo(origin.authority, RIGHT),
    '\x16\x03\x01',
    '\r\n',
  ]) {
    for (const fields of ['', credentials('ann:wrong')]) {
      const client = await rawClient(t, proxy.port)
      client.write(connectTo(origin.authority, fields) + behind)
      await challenged(t, client, true)
      t.equal(await client.untilEnd(), '')
      client.end()
      await client.closed()
    }
  }
  t.equal(origin.accepted, 0)
})

t.test('a challenge can follow another on one connection', async t => {
  const origin = await rawOrigin(t)
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  for (const fields of ['', credentials('ann:wrong'), '', credentials('nobody:open sesame')]) {
    client.write(connectTo(origin.authority, fields))
    await challenged(t, client, false)
    client.write(get(origin.authority, fields))
    await challenged(t, client, false)
  }
  client.write(connectTo(origin.authority, RIGHT))
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
})

t.test('a CONNECT of HTTP/1.0 persists when it requests keep-alive (RFC 9112 §9.3)', async t => {
  const proxy = await guarded(t)
  const closing = await rawClient(t, proxy.port)
  closing.write(connectTo('a.test:443', '', '1.0'))
  await challenged(t, closing, true)
  t.equal(await closing.untilEnd(), '')

  const kept = await rawClient(t, proxy.port)
  for (let i = 0; i < 2; i++) {
    kept.write(connectTo('a.test:443', 'Proxy-Connection: keep-alive\r\n', '1.0'))
    const head = await kept.until('\r\n\r\n')
    t.match(head, /^HTTP\/1\.1 407 /)
    t.match(head, '\r\nConnection: keep-alive\r\n')
    await kept.until('\n')
  }
  const asked = await rawClient(t, proxy.port)
  asked.write(connectTo('a.test:443', 'Connection: close\r\n'))
  await challenged(t, asked, true)
  t.equal(await asked.untilEnd(), '')
})

t.test('a CONNECT that is refused for another reason still closes its connection', async t => {
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  client.write(connectTo('elsewhere.example:443', RIGHT))
  checkRefusal(t, await readResponse(client), { status: 403, close: true })
  t.equal(await client.untilEnd(), '')
})

t.test('http:// is answered 407, then forwarded without the credentials (RFC 9110 §11.7.2)', async t => {
  const origin = await rawOrigin(t)
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  client.write(get(origin.authority))
  await challenged(t, client, false)
  for (const fields of [RIGHT, `Content-Length: 0\r\n${credentials('übel:pass:wörd')}`]) {
    client.write(get(origin.authority, fields))
    const peer = await origin.accept()
    const head = await peer.until('\r\n\r\n')
    t.notMatch(head.toLowerCase(), 'authorization')
    peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi')
    t.equal((await readResponse(client)).body, 'hi')
  }
})

t.test('a 407 to a request that is not read to its end closes the connection', async t => {
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  client.write(`POST http://a.test/ HTTP/1.1\r\n${H}Content-Length: 5\r\n\r\n`)
  await challenged(t, client, true)
  t.equal(await client.untilEnd(), '')
})

t.test('every form of request is challenged', async t => {
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  for (const line of [
    'GET http://a.test/',
    'HEAD http://a.test/',
    'GET /',
    'OPTIONS *',
    'OPTIONS http://a.test/',
    'TRACE http://a.test/',
    'CONNECT a.test:443',
  ]) {
    client.write(`${line} HTTP/1.1\r\n${H}\r\n`)
    await challenged(t, client, false, line.split(' ')[0])
  }
})

t.test('each error has its own message and event, and credentials in neither', async t => {
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  for (const [fields, fault, says] of [
    ['', 'missing', /Send a name and a password with Proxy-Authorization/],
    ['Proxy-Authorization: Bearer s3cret\r\n', 'missing', /http:\/\/NAME:PASSWORD@HOST:PORT/],
    ['Proxy-Authorization: Basic s3cret\r\n', 'malformed', /one field with Basic and, in base64,/],
    [RIGHT + RIGHT, 'malformed', /one field/],
    [credentials('ann:s3cret'), 'wrong', /htpasswd_file under clients .* this name with this password/],
    [credentials('s3cret:open sesame'), 'wrong', /does not hold this name with this password/],
  ] as const) {
    const from = proxy.events.length
    client.write(connectTo('a.test:443', fields))
    const response = await challenged(t, client, false)
    t.equal(response.reason, `Sluice: proxy credentials are ${fault}`)
    t.match(response.body, says)
    t.notMatch(response.head + response.body, /s3cret|ann|sesame/)
    const events = await checkEvents(
      t,
      proxy,
      from,
      { level: 'warn', decision: 'deny', reason: `credentials_${fault}`, kind: 'connect', host: 'a.test' },
      { status: 407, close_reason: 'refused', error: 'http_request_denied', reason: `credentials_${fault}` },
    )
    t.notOk(events.some(event => 'client' in event))
    t.notMatch(JSON.stringify(events), /s3cret|ann|sesame|czNjcmV0/)
  }
  const from = proxy.events.length
  client.write(connectTo('elsewhere.example:443', RIGHT))
  t.equal((await readResponse(client)).status, 403)
  const events = await checkEvents(
    t,
    proxy,
    from,
    { client: 'team', decision: 'deny', reason: 'no_rule' },
    { client: 'team', status: 403 },
  )
  t.notMatch(JSON.stringify(events), /sesame/)
})

t.test('guessing ends in 429 until the minute is over (RFC 6585 §4)', async t => {
  const clock = new ManualClock()
  const proxy = await guarded(t, '', { now: clock.now })
  const client = await rawClient(t, proxy.port)
  for (let i = 0; i < 20; i++) {
    client.write(get('elsewhere.example', credentials(`ann:${i}`)))
    await challenged(t, client, false)
  }
  clock.advance(500)
  const from = proxy.events.length
  client.write(get('elsewhere.example', RIGHT))
  const response = await readResponse(client)
  checkRefusal(t, response, { status: 429, close: false })
  t.equal(response.fields['retry-after'], '60')
  t.equal(response.fields['proxy-authenticate'], undefined)
  t.match(response.body, /Too many credentials from this address .* for 60 s\./)
  await checkEvents(
    t,
    proxy,
    from,
    { decision: 'deny', reason: 'authentication_rate' },
    { status: 429, reason: 'authentication_rate' },
  )
  const tunnel = await rawClient(t, proxy.port)
  tunnel.write(connectTo('elsewhere.example:443', RIGHT))
  checkRefusal(t, await readResponse(tunnel), { status: 429, close: true })
  clock.advance(59_500)
  const later = await rawClient(t, proxy.port)
  later.write(get('elsewhere.example', RIGHT))
  t.equal((await readResponse(later)).status, 403, 'known again, and refused by the rules')
})

t.test('an earlier entry that contains the address asks for no credentials', async t => {
  const proxy = await guarded(t, '  - { name: near, cidr: ["127.0.0.0/8"], rules: [] }\n')
  const client = await rawClient(t, proxy.port)
  client.write(get('a.test', credentials('ann:wrong')))
  t.match(await readResponse(client), { status: 403, reason: /^Sluice: no rule allows a\.test:80$/ })
  t.match(await proxy.event('decision'), { client: 'near', reason: 'no_rule' })
})

t.test('requests wait for a password check, in order', async t => {
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  client.write(get('one.example', RIGHT) + get('two.example') + get('three.example', RIGHT))
  t.match((await readResponse(client)).reason, /one\.example/)
  await challenged(t, client, false)
  t.match((await readResponse(client)).reason, /three\.example/)
})

t.test('a guess is logged although the client has left', async t => {
  const proxy = await guarded(t)
  const client = await rawClient(t, proxy.port)
  // The check begins only after the client has left.
  const held = holdPasswords(t)
  client.write(get('a.test', credentials('ann:wrong')))
  client.end()
  await client.closed()
  t.equal(held.length, 1)
  for (const { pass } of held) pass()
  await checkEvents(
    t,
    proxy,
    0,
    { decision: 'deny', reason: 'credentials_wrong' },
    { status: 0, close_reason: 'client_gone' },
  )
})

/** The messages to the password thread are held until the test releases them. */
function holdPasswords(t: Test) {
  const { postMessage } = Worker.prototype
  const held: { readonly password: string; pass(): void }[] = []
  Worker.prototype.postMessage = function (this: Worker, ...args: Parameters<typeof postMessage>): void {
    const { password } = args[0] as PasswordQuestion
    held.push({ password, pass: () => postMessage.apply(this, args) })
  }
  t.teardown(() => {
    Worker.prototype.postMessage = postMessage
  })
  return held
}

/** Counts the credentials that were received for a check. */
class CountedAttempts extends FailedAttempts {
  begun = 0

  override begin(name: string, digest: string): (wrong: boolean) => void {
    this.begun++
    return super.begin(name, digest)
  }
}

t.test(
  'of 72 guesses with closed connections one is checked, and then the right password of another client',
  async t => {
    const attempts = new CountedAttempts(() => 0)
    const proxy = await guarded(t, '', { attempts })
    const held = holdPasswords(t)
    for (let wave = 0; wave < 4; wave++) {
      const guessers = await Promise.all(Array.from({ length: 18 }, () => rawClient(t, proxy.port)))
      for (const [i, guesser] of guessers.entries()) {
        guesser.write(connectTo('a.test:443', credentials(`ann:${wave} ${i}`)))
      }
      await until('the guesses have come', () => attempts.begun === 18 * (wave + 1))
      for (const guesser of guessers) guesser.reset()
      await proxy.event('close', 18 * (wave + 1) - 1)
      t.equal(held.length, 1)
    }
    const other = await rawClient(t, proxy.port, '127.0.0.2')
    other.write(get('elsewhere.example', RIGHT))
    held[0]?.pass()
    await until('the next is checked', () => held.length === 2)
    t.equal(held[1]?.password, 'open sesame')
    held[1]?.pass()
    t.match(await readResponse(other), { status: 403, reason: /^Sluice: no rule allows elsewhere/ })
    t.equal(held.length, 2)
    const reasons = proxy.events.filter(({ event }) => event === 'decision').map(({ reason }) => reason)
    t.same(reasons.sort(), [...new Array(71).fill('client_gone'), 'credentials_wrong', 'no_rule'])
  },
)

t.test('one password check more than may wait is 503 with Retry-After (RFC 9110 §15.6.4)', async t => {
  const attempts = new CountedAttempts(() => 0)
  const proxy = await guarded(t, '', { attempts })
  const held = holdPasswords(t)
  const guess = async (from: string, password: string): Promise<RawPeer> => {
    const client = await rawClient(t, proxy.port, from)
    client.write(get('elsewhere.example', credentials(`ann:${password}`)))
    return client
  }
  const guessers = []
  for (let i = 2; i < 67; i++) guessers.push(await guess(`127.0.0.${i}`, `${i}`))
  await until('the guesses have come', () => attempts.begun === 65)
  const refused = await guess('127.0.0.67', 'open sesame')
  const response = await readResponse(refused)
  checkRefusal(t, response, { status: 503, close: false })
  t.equal(response.fields['retry-after'], '1')
  t.equal(response.reason, 'Sluice: too many passwords wait to be checked')
  t.match(await proxy.event('decision'), { decision: 'deny', reason: 'authentication_busy' })
  for (const guesser of guessers) guesser.reset()
  await proxy.event('close', 65)
  held[0]?.pass()
  refused.write(get('elsewhere.example', RIGHT))
  await until('the next is checked', () => held.length === 2)
  held[1]?.pass()
  t.equal((await readResponse(refused)).status, 403)
})

t.test('a client that leaves while its right password is checked gets no further', async t => {
  const origin = await rawOrigin(t)
  const proxy = await guarded(t)
  const held = holdPasswords(t)
  const client = await rawClient(t, proxy.port)
  client.write(connectTo(origin.authority, RIGHT))
  await until('the password is checked', () => held.length === 1)
  client.reset()
  await client.closed()
  const other = await rawClient(t, proxy.port)
  other.write(get('elsewhere.example'))
  await challenged(t, other, false)
  held[0]?.pass()
  const events = await checkEvents(
    t,
    proxy,
    2,
    { client: 'team', decision: 'allow', reason: 'client_gone' },
    { status: 0, close_reason: 'client_gone' },
  )
  t.notOk(
    events.some(event => 'rule' in event),
    'no rule was asked',
  )
  t.equal(origin.accepted, 0)
})
