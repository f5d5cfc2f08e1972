/** What operators see of requests that fail: the log at level warn, `/metrics` and `/status.json`. */
import { readdir, truncate } from 'node:fs/promises'
import { once } from 'node:events'
import { connect, Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { DocumentFailure, StatusDocument } from '../../src/admin/status-document.js'
import { createLogger } from '../../src/index.js'
import { dialled } from '../kit/fakes/dialled.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { ANY_HOST, connectTo } from '../kit/proxies/setups.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

const DOWN = new Set<number>()

/** Refuses connections to the ports in DOWN, and opens all others. */
function connector() {
  return dialled(options => {
    if (!DOWN.has(Number(options.port))) return connect(options)
    const socket = new Socket()
    process.nextTick(() => socket.destroy(Object.assign(new Error('down'), { code: 'ECONNREFUSED' })))
    return socket
  }).connector
}

async function statusOf({ adminPort }: TestProxy): Promise<StatusDocument> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/status.json`)
  return (await response.json()) as StatusDocument
}

async function ask(t: Test, proxy: TestProxy, head: string): Promise<number> {
  const client = await rawClient(t, proxy.port)
  client.write(head)
  const { status } = await readResponse(client)
  client.destroy()
  return status
}

const get = (target: string) => `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`

const brief = ({ host, port, reason, parent, count }: DocumentFailure) => ({
  host,
  port,
  reason,
  parent,
  count,
})

t.test(
  'with every parent down, failures are counted and listed, and the parents are shown as down',
  async t => {
    const parents = [await rawOrigin(t), await rawOrigin(t)]
    const [first = '', second = ''] = parents.map(({ authority }) => `http://${authority}`)
    for (const { port } of parents) DOWN.add(port)
    const proxy = await testProxy(t, `parent: { url: ["${first}", "${second}"] }\n${ANY_HOST}`, {
      connector: connector(),
    })
    const label = (upstream: string) => `route="parent",upstream="${upstream}"`
    const before = await proxy.metrics()
    for (const upstream of [first, second])
      t.equal(before.value(`sluice_upstream_up{${label(upstream)}}`), 1, 'nothing was tried')
    t.same((await statusOf(proxy)).failures.listed, [])

    t.equal(await ask(t, proxy, connectTo('a.example:443')), 502)
    t.equal(await ask(t, proxy, connectTo('a.example:443')), 502)
    t.equal(await ask(t, proxy, get('http://b.example/')), 502)
    await proxy.event('close', 3)
    const after = await proxy.metrics()
    t.same(after.counted('sluice_failures_total'), {
      'sluice_failures_total{reason="connection_refused"}': 3,
    })
    for (const upstream of [first, second]) {
      t.equal(after.value(`sluice_upstream_up{${label(upstream)}}`), 0)
      t.equal(
        after.value(`sluice_upstream_failures_total{${label(upstream)},error="connection_refused"}`),
        3,
        'those after which another one was asked, too',
      )
    }
    const status = await statusOf(proxy)
    t.same(
      status.upstreams.map(({ route, upstream, up, failures }) => ({ route, upstream, up, failures })),
      [first, second].map(upstream => ({ route: 'parent', upstream, up: false, failures: 3 })),
    )
    for (const { error, down_since: since, last_tried: tried } of status.upstreams) {
      t.match(error, /^connection refused: 127\.0\.0\.1:\d+$/)
      t.ok(Date.parse(since ?? '') <= Date.parse(tried ?? ''))
      t.ok(Date.parse(tried ?? '') <= Date.parse(status.time))
    }
    const { listed, dropped } = status.failures
    t.equal(dropped, 0)
    t.same(listed.map(brief), [
      { host: 'b.example', port: 80, reason: 'connection_refused', parent: listed[0]?.parent, count: 1 },
      { host: 'a.example', port: 443, reason: 'connection_refused', parent: listed[1]?.parent, count: 2 },
    ])
    for (const failure of listed) {
      t.ok([first, second].includes(failure.parent ?? ''))
      t.match(failure.detail, /^parent\.url points to http:\/\/127\.0\.0\.1:\d+: connection refused/)
      t.match(failure, { client: 'private', client_address: '127.0.0.1' })
    }
    const closes = proxy.events.filter(({ event }) => event === 'close')
    t.same(
      closes.map(({ level, close_reason: reason }) => [level, reason]),
      closes.map(() => ['warn', 'failed']),
    )
  },
)

t.test('a parent that can be reached again is up, without an error', async t => {
  const parent = await rawOrigin(t)
  DOWN.add(parent.port)
  const proxy = await testProxy(t, `parent: { url: "http://${parent.authority}" }\n${ANY_HOST}`, {
    connector: connector(),
  })
  t.equal(await ask(t, proxy, connectTo('a.example:443')), 502)
  t.equal((await statusOf(proxy)).upstreams[0]?.up, false)
  DOWN.delete(parent.port)
  const client = await rawClient(t, proxy.port)
  client.write(connectTo('a.example:443'))
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 200 OK\r\n\r\n')
  await client.until('\r\n\r\n')
  const { upstreams, failures } = await statusOf(proxy)
  t.match(upstreams, [
    { route: 'parent', up: true, error: null, down_since: null, last_tried: null, failures: 1 },
  ])
  t.equal(failures.listed.length, 1, 'what has failed stays in the list')
  client.destroy()
  peer.destroy()
})

t.test(
  'names without an address and broken responses are failures, refusals and 5xx of origins are none',
  async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, LOOPBACK_RULES, {
      lookup: async name => {
        if (name === 'up.test') return ['127.0.0.1']
        throw Object.assign(new Error('gone'), { code: 'ENOTFOUND' })
      },
    })
    const answered = async (answer: string): Promise<number> => {
      const client = await rawClient(t, proxy.port)
      client.write(get(`http://up.test:${origin.port}/`))
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(answer)
      peer.end()
      const head = await client.until('\r\n\r\n')
      await client.untilEnd()
      return Number(head.slice(9, 12))
    }
    t.equal(await ask(t, proxy, get('http://other.example/')), 403)
    t.equal(await answered('HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'), 503)
    t.equal(await ask(t, proxy, get('http://gone.test/')), 502)
    t.equal(await answered('SMTP ready\r\n'), 502)
    t.equal(await answered('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'), 200)
    await proxy.event('close', 5)
    t.same((await proxy.metrics()).counted('sluice_failures_total'), {
      'sluice_failures_total{reason="dns_error"}': 1,
      'sluice_failures_total{reason="http_protocol_error"}': 1,
      'sluice_failures_total{reason="http_response_incomplete"}': 1,
    })
    const { failures, rates } = await statusOf(proxy)
    t.same(
      failures.listed.map(({ host, reason, rule }) => [host, reason, rule]),
      [
        ['up.test', 'http_response_incomplete', 'local'],
        ['up.test', 'http_protocol_error', 'local'],
        ['gone.test', 'dns_error', 'local'],
      ],
    )
    t.type(rates.failed_per_second, 'number')
  },
)

t.test('at level warn the log has what failed, and nothing of what did not', async t => {
  const origin = await rawOrigin(t)
  const lines: Record<string, unknown>[] = []
  const logger = createLogger('warn', { write: line => void lines.push(JSON.parse(line)) })
  const proxy = await testProxy(t, LOOPBACK_RULES, { logger })
  const client = await rawClient(t, proxy.port)
  client.write(get(`http://${origin.authority}/`))
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
  await readResponse(client)
  client.destroy()
  t.equal(await ask(t, proxy, connectTo('127.0.0.1:9')), 502)
  await proxy.drain()
  t.equal(lines.length, 1)
  t.match(lines[0], {
    level: 'warn',
    event: 'close',
    host: '127.0.0.1',
    status: 502,
    close_reason: 'failed',
    detail: /connection refused/,
  })
})

t.test('a response of the store that breaks off is a failure with a reason', async t => {
  const directory = await temporaryDirectory(t)
  const proxy = await testProxy(
    t,
    `origins: [{ path: /, store: { directory: ${JSON.stringify(directory)} } }]`,
  )
  const length = 16 * 1024 * 1024
  const writer = await rawClient(t, proxy.port)
  writer.write(`PUT /c/large HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`)
  writer.write(Buffer.alloc(length))
  t.equal((await readResponse(writer, 'PUT')).status, 201)
  writer.destroy()
  const reader = connect(proxy.port, '127.0.0.1')
  t.teardown(() => reader.destroy())
  reader.write(get('/c/large'))
  // The response has begun; far more than the buffers of the connection hold is still to be read.
  await once(reader, 'readable')
  const files = await readdir(directory, { recursive: true, withFileTypes: true })
  for (const file of files) if (file.isFile()) await truncate(join(file.parentPath, file.name), 1024)
  reader.on('error', () => {})
  reader.resume()
  t.match(await proxy.event('close', 2), {
    level: 'warn',
    status: 200,
    close_reason: 'failed',
    error: 'proxy_internal_error',
    reason: 'store_damaged',
    detail: /damaged/,
  })
  t.same((await proxy.metrics()).counted('sluice_failures_total'), {
    'sluice_failures_total{reason="store_damaged"}': 1,
  })
})
