/** TRACE: the method specification, 4.10 and 7 (RFC 9110 §9.3.8), through the whole proxy. */
import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'

const ON = 'trace: { enabled: true }\n'
const SENSITIVE = ['Authorization', 'Proxy-Authorization', 'Cookie']

t.test('4.10 the answer is the request as it came, as message/http', async t => {
  const { ask, target, text } = await threeWays(t, { yaml: ON })
  const fields = 'x-a:  b \r\nX-A: c\r\nVia: 1.0 other\r\nX: \xe9\r\nMax-Forwards: 0\r\n'
  for (const way of ['forward', 'passthrough', 'store'] as const) {
    const { status, fields: answered, body } = await ask('TRACE', target(way), { fields })
    t.same([status, answered['content-type']], [200, 'message/http'], way)
    t.equal(body, text('TRACE', target(way), { fields }).replace('x-a:  b \r\n', 'x-a: b\r\n'))
    t.equal(answered['content-length'], String(body.length))
  }
})

t.test('4.10 a TRACE with content is 400 and goes nowhere', async t => {
  const { origin, connect, target, text } = await threeWays(t, { yaml: ON })
  for (const way of ['forward', 'passthrough', 'store'] as const) {
    for (const [fields, content] of [
      ['Content-Length: 1\r\n', 'x'],
      ['Transfer-Encoding: chunked\r\n', '0\r\n\r\n'],
    ] as const) {
      const client = await connect()
      client.write(text('TRACE', target(way), { fields }) + content)
      t.equal((await readResponse(client)).status, 400, `${way}, ${fields}`)
      t.equal(await client.untilEnd(), '')
    }
  }
  t.equal(origin.requests.length, 0)
})

t.test('4.10 what is sensitive in a request is not echoed', async t => {
  const { ask, target } = await threeWays(t, { yaml: 'trace: { enabled: true, exclude: [X-Key] }\n' })
  const secrets = [...SENSITIVE, ...SENSITIVE.map(name => name.toUpperCase()), 'x-key']
  const fields = `Max-Forwards: 0\r\nX: y\r\n${secrets.map(name => `${name}: secret\r\n`).join('')}`
  for (const way of ['forward', 'passthrough', 'store'] as const) {
    const { status, head, body } = await ask('TRACE', target(way), { fields })
    t.equal(status, 200)
    t.notMatch(head + body, /secret|authorization|cookie|x-key/i, way)
    t.match(body, '\r\nX: y\r\n')
  }
})

t.test('4.10 Max-Forwards says at which hop of a chain it is answered', async t => {
  const { origin, ask, target } = await threeWays(t, { yaml: ON })
  for (const way of UPSTREAM_WAYS) {
    const before = origin.requests.length
    const here = await ask('TRACE', target(way), { fields: 'Max-Forwards: 0\r\n' })
    t.match(here.body, /^TRACE .*\r\n[\s\S]*Max-Forwards: 0\r\n/)
    t.equal(origin.requests.length, before, 'this hop is the last one')
    for (const [hops, left] of [
      ['1', '0'],
      ['7', '6'],
    ] as const) {
      await ask('TRACE', target(way), { fields: `Max-Forwards: ${hops}\r\n` })
      t.match(origin.requests.at(-1)?.head, `\r\nMax-Forwards: ${left}\r\n`, way)
    }
    await ask('TRACE', target(way))
    t.match(origin.requests.at(-1)?.head, '\r\nVia: 1.1 sluice-test\r\n', 'the chain is in Via')
    t.equal(origin.requests.length, before + 3)
  }
})

t.test('4.10, 7 it is off by default: 405 with an Allow that has no TRACE, echoing nothing', async t => {
  const { origin, ask, target } = await threeWays(t)
  for (const way of ['forward', 'passthrough', 'store'] as const) {
    for (const fields of ['', 'Max-Forwards: 0\r\n', 'Max-Forwards: 9\r\n']) {
      const refused = await ask('TRACE', target(way), { fields: `${fields}X-Mark: mark\r\n` })
      t.equal(refused.status, 405, way)
      t.match(refused.fields['allow'], /^GET, HEAD, /)
      t.notMatch(refused.fields['allow'], 'TRACE')
      t.notMatch(refused.body, 'mark')
    }
  }
  t.equal(origin.requests.length, 0)
})

t.test('4.10 whoever runs it may switch it on: then it is answered, and stands in Allow', async t => {
  const { ask, target } = await threeWays(t, { yaml: ON })
  t.match((await ask('OPTIONS', '*')).fields['allow'], 'TRACE')
  for (const way of ['forward', 'passthrough', 'store'] as const) {
    t.equal((await ask('TRACE', target(way))).status, 200, way)
  }
})
