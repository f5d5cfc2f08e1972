/** OPTIONS: the method specification, 4.9 (RFC 9110 §9.3.7), through the whole proxy. */
import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'
import { OK } from '../kit/peers/responses.js'

const SERVER = 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, PATCH'

t.test('4.9 `*` asks about the server as a whole, a path about that resource', async t => {
  const { origin, ask, target } = await threeWays(t)
  t.match(await ask('OPTIONS', '*'), { status: 200, fields: { allow: SERVER } })
  t.equal(origin.requests.length, 0, 'it is this server that is asked')
  t.match((await ask('OPTIONS', target('store'))).fields, {
    allow: 'GET, HEAD, PUT, DELETE, OPTIONS, PATCH',
  })
  t.match((await ask('OPTIONS', target('store', '/'))).fields, { allow: 'GET, HEAD, POST, OPTIONS' })
  for (const way of UPSTREAM_WAYS) {
    origin.script = () => 'HTTP/1.1 204 No Content\r\nAllow: GET, BREW\r\n\r\n'
    t.match(await ask('OPTIONS', target(way)), { status: 204, fields: { allow: 'GET, BREW' } }, way)
    t.equal(origin.requests.at(-1)?.target, '/up/a')
  }
})

t.test('4.9 an authority alone asks about that server: the last hop sends it `*`', async t => {
  const { origin, ask } = await threeWays(t)
  for (const [target, sent] of [
    [`http://${origin.authority}`, '*'],
    [`http://${origin.authority}/`, '/'],
    [`http://${origin.authority}?q`, '/?q'],
  ] as const) {
    t.equal((await ask('OPTIONS', target)).status, 200)
    t.match(origin.requests.at(-1), { method: 'OPTIONS', target: sent })
  }
})

t.test('4.9 content in it means nothing: it goes on as it came, and the store reads past it', async t => {
  const { origin, ask, connect, target, text } = await threeWays(t)
  for (const way of UPSTREAM_WAYS) {
    t.equal((await ask('OPTIONS', target(way), { content: 'hello' })).status, 200)
    t.equal(origin.requests.at(-1)?.content, 'hello', way)
  }
  const client = await connect()
  for (let i = 0; i < 2; i++) {
    client.write(text('OPTIONS', target('store'), { content: 'hello' }))
    const { status, fields } = await readResponse(client)
    t.same([status, fields['content-length']], [200, '0'])
  }
  t.equal((await ask('OPTIONS', '*', { content: 'hello' })).status, 200)
})

t.test('4.9 what we answer has Allow and no content, whatever is asked about', async t => {
  const { origin, ask, target } = await threeWays(t)
  const last = { fields: 'Max-Forwards: 0\r\n' }
  for (const [where, asked] of [
    ['*', {}],
    [target('store'), {}],
    [target('store', '/none'), {}],
    [target('store', '/'), {}],
    [target('forward'), last],
    [target('passthrough'), last],
  ] as const) {
    const { status, fields, body } = await ask('OPTIONS', where, asked)
    t.same([status, fields['content-length'], body], [200, '0', ''], where)
    t.match(fields['allow'], /^GET, HEAD, (?:[A-Z]+, )*OPTIONS/, where)
  }
  t.equal(origin.requests.length, 0)
})

t.test('4.9 content in an answer of an origin is optional, and passes', async t => {
  const { origin, ask, target } = await threeWays(t)
  for (const way of UPSTREAM_WAYS) {
    origin.script = () => OK
    t.equal((await ask('OPTIONS', target(way))).body, 'ok', way)
    origin.script = () => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
    t.equal((await ask('OPTIONS', target(way))).body, '', way)
  }
})

t.test('4.9 a CORS preflight is between browser and origin: it passes, and we answer none', async t => {
  const { origin, ask, target } = await threeWays(t)
  const fields =
    'Origin: https://a.test\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a\r\n'
  const allowed = 'Access-Control-Allow-Origin: https://a.test\r\nAccess-Control-Allow-Methods: PUT\r\n'
  for (const way of UPSTREAM_WAYS) {
    origin.script = () => `HTTP/1.1 204 No Content\r\n${allowed}\r\n`
    const { head } = await ask('OPTIONS', target(way), { fields })
    t.match(head, `\r\n${allowed}`, way)
    t.match(origin.requests.at(-1)?.head, `\r\n${fields}`)
  }
  for (const where of ['*', target('store'), target('store', '/')]) {
    const { head } = await ask('OPTIONS', where, { fields })
    t.match(head, '\r\nAllow: ')
    t.notMatch(head, /access-control/i, where)
  }
})
