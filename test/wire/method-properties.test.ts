/**
 * The table of methods (method specification, 4 and 4.2; RFC 9110 §9.2, §9.3), row by row: what it says is seen on the
 * wire and not in our own table. What may be stored and reused is not looked at here.
 */
import t from 'tap'
import { METHODS, type KnownMethod } from '../../src/http/method.js'
import { readResponse } from '../kit/peers/read-response.js'
import type { ScriptedAnswer } from '../kit/peers/scripted-origin.js'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'
import { OK } from '../kit/peers/responses.js'

interface Row {
  readonly safe: boolean
  readonly idempotent: boolean
  readonly cacheable: 'yes' | 'explicit' | 'no'
  /** Content in a request is forwarded unchanged, or the request is refused. */
  readonly requestContent: 'passes' | 'refused'
  readonly responseContent: 'passes' | 'none'
}

/** According to the specification. */
const ROWS: Record<KnownMethod, Row> = {
  GET: {
    safe: true,
    idempotent: true,
    cacheable: 'yes',
    requestContent: 'passes',
    responseContent: 'passes',
  },
  HEAD: { safe: true, idempotent: true, cacheable: 'yes', requestContent: 'passes', responseContent: 'none' },
  POST: {
    safe: false,
    idempotent: false,
    cacheable: 'explicit',
    requestContent: 'passes',
    responseContent: 'passes',
  },
  PUT: {
    safe: false,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'passes',
    responseContent: 'passes',
  },
  DELETE: {
    safe: false,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'passes',
    responseContent: 'passes',
  },
  CONNECT: {
    safe: false,
    idempotent: false,
    cacheable: 'no',
    requestContent: 'refused',
    responseContent: 'none',
  },
  OPTIONS: {
    safe: true,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'passes',
    responseContent: 'passes',
  },
  TRACE: {
    safe: true,
    idempotent: true,
    cacheable: 'no',
    requestContent: 'refused',
    responseContent: 'passes',
  },
  PATCH: {
    safe: false,
    idempotent: false,
    cacheable: 'explicit',
    requestContent: 'passes',
    responseContent: 'passes',
  },
}
const NAMES = Object.keys(ROWS) as KnownMethod[]
const YAML = 'trace: { enabled: true }\n'

for (const [method, row] of Object.entries(ROWS) as [KnownMethod, Row][]) {
  t.test(`1, 4.2 the row of ${method} is what its requests meet`, async t => {
    t.match(METHODS[method], { safe: row.safe, idempotent: row.idempotent, cacheable: row.cacheable })
    const world = await threeWays(t, { yaml: YAML, write: '["192.0.2.1"]' })
    const { origin, ask, connect, target, text } = world

    // Safe: the store allows it to clients without write access.
    const path = method === 'POST' ? '/' : '/a'
    if (method !== 'CONNECT') {
      const { status } = await ask(method, target('store', path))
      if (row.safe) t.not(status, 403, 'it changes nothing')
      else t.equal(status, 403, 'it may change something')
    }

    for (const way of UPSTREAM_WAYS) {
      if (method === 'CONNECT' && way === 'passthrough') continue
      const at = method === 'CONNECT' ? origin.authority : target(way)
      // Content of the request.
      const before = origin.requests.length
      for (const [fields, content] of [
        ['Content-Length: 2\r\n', 'hi'],
        ['Transfer-Encoding: chunked\r\n', '2\r\nhi\r\n0\r\n\r\n'],
      ] as const) {
        const client = await connect()
        client.write(text(method, at, { fields }) + content)
        const { status } = await readResponse(client, method)
        if (row.requestContent === 'passes') {
          t.same([status, origin.requests.at(-1)?.content], [200, content], `${way}: content goes on`)
        } else t.equal(status, 400, `${way}: content is refused`)
        client.destroy()
      }
      const passed = row.requestContent === 'passes' ? 2 : 0
      t.equal(origin.requests.length - before, passed)

      // Idempotent: repeated when a reused connection closes without a response, otherwise never.
      if (method === 'CONNECT') continue
      const client = await connect()
      // With the same request, as an upstream has separate connections for undici and for other requests.
      client.write(text(method, at))
      await readResponse(client, method)
      const doomed = origin.requests.at(-1)?.connection
      const { script } = origin
      const sent = origin.requests.length
      origin.script = (request): ScriptedAnswer | string =>
        request.connection === doomed ? { bytes: '', ending: 'end' } : script(request)
      client.write(text(method, at))
      const { status, body } = await readResponse(client, method)
      const times = origin.requests.length - sent
      t.same([status, times], row.idempotent ? [200, 2] : [502, 1], `${way}: ${row.idempotent}`)
      origin.script = script

      // Content of the response.
      if (row.idempotent) t.equal(body, row.responseContent === 'passes' ? 'ok' : '', way)
      client.write(text(method, at))
      const answered = await readResponse(client, method)
      t.equal(answered.body, row.responseContent === 'passes' ? 'ok' : '')
      t.equal(answered.fields['content-length'], '2')
      client.destroy()
    }
  })
}

t.test('4.2 the table has the nine, each safe one is idempotent, and the code has the same', async t => {
  t.same(Object.keys(METHODS), NAMES)
  for (const name of NAMES) t.ok(!ROWS[name].safe || ROWS[name].idempotent, name)
})

t.test('4.2 safe requests, logged and counted as they are, leave the resource as it was', async t => {
  const { proxy, ask, target } = await threeWays(t, { yaml: YAML })
  await ask('PUT', target('store'), { content: 'one' })
  const first = await ask('GET', target('store'))
  for (const method of NAMES.filter(name => ROWS[name].safe)) {
    for (const path of ['/a', '/none', '/', '/none/']) {
      const client = await ask(method, target('store', path))
      t.ok(client.status < 500, `${method} ${path}`)
    }
  }
  const { fields, body } = await ask('GET', target('store'))
  t.same(
    [body, fields['etag'], fields['last-modified']],
    [first.body, first.fields['etag'], first.fields['last-modified']],
  )
  t.match(JSON.parse((await ask('GET', target('store', '/'))).body), { items: [{ name: 'a' }] })
  t.equal((await ask('GET', target('store', '/none'))).status, 404)
  await proxy.event('close', 20)
  t.ok(proxy.events.filter(({ method }) => method === 'HEAD').length > 0, 'they are logged all the same')
})

t.test('4.2 an idempotent request may come many times: the effect is that of one', async t => {
  const { ask, target } = await threeWays(t)
  const at = target('store')
  const statuses: Record<string, number[]> = { PUT: [], DELETE: [] }
  for (let i = 0; i < 3; i++) {
    statuses['PUT']?.push((await ask('PUT', at, { content: 'same' })).status)
    t.equal((await ask('GET', at)).body, 'same')
  }
  for (let i = 0; i < 3; i++) {
    statuses['DELETE']?.push((await ask('DELETE', at)).status)
    t.equal((await ask('GET', at)).status, 404)
  }
  t.same(statuses, { PUT: [201, 204, 204], DELETE: [204, 404, 404] }, 'the answers may differ')
})

t.test('4 each form of request target has its methods, and no other', async t => {
  const { origin, connect, target } = await threeWays(t, { yaml: YAML })
  const forms = {
    origin: '/kept/a',
    absolute: target('forward'),
    authority: origin.authority,
    asterisk: '*',
  }
  for (const method of NAMES) {
    for (const [form, text] of Object.entries(forms)) {
      const client = await connect()
      client.write(`${method} ${text} HTTP/1.1\r\nHost: h\r\n\r\n`)
      const { status } = await readResponse(client, 'HEAD')
      const takes =
        form === 'authority'
          ? method === 'CONNECT'
          : form === 'asterisk'
            ? method === 'OPTIONS'
            : method !== 'CONNECT'
      t.equal(status === 400, !takes, `${method}, ${form}: ${status}`)
      client.destroy()
    }
  }
})

t.test('4 origin-form is a path on this server, and goes on as it came', async t => {
  const { origin, ask } = await threeWays(t)
  for (const method of NAMES.filter(name => !['CONNECT', 'TRACE'].includes(name))) {
    t.equal((await ask(method, '/up/p%2F?q=/*')).status, 200)
    t.match(origin.requests.at(-1)?.head, `${method} /up/p%2F?q=/* HTTP/1.1\r\n`)
  }
})

t.test('4.2 an answer with content has it for every method that may have any', async t => {
  const { origin, ask, target } = await threeWays(t, { yaml: YAML })
  for (const way of UPSTREAM_WAYS) {
    for (const method of NAMES.filter(name => name !== 'CONNECT' && name !== 'HEAD')) {
      for (const [answer, status, body] of [
        [OK, 200, 'ok'],
        ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', 200, ''],
        ['HTTP/1.1 204 No Content\r\n\r\n', 204, ''],
      ] as const) {
        origin.script = () => answer
        const got = await ask(method, target(way))
        t.same([got.status, got.body], [status, body], `${method}, ${way}`)
      }
    }
  }
})
