/**
 * HEAD is answered without content (method specification, 4.4; RFC 9110 §9.3.2): each error of the table of errors,
 * provoked through the whole proxy where a request for a head can, and by the response writer for all of them.
 */
import { writeFileSync } from 'node:fs'
import { connect, Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { PROXY_ERRORS, ProxyError, type ProxyErrorType } from '../../src/errors.js'
import type { ProxyEnvironment } from '../../src/index.js'
import { Authority } from '../kit/peers/authority.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { type ScriptedAnswer, scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { tlsOrigin } from '../kit/peers/tls-origin.js'
import { servedConnection } from '../kit/proxies/served-connection.js'
import { needs } from '../kit/processes/command.js'

const TYPES = Object.keys(PROXY_ERRORS) as ProxyErrorType[]

interface Provoked {
  readonly status: number
  /** UP stands for the authority of the origin, and DIR for a folder with a `file`. */
  readonly target: string
  readonly fields?: string
  readonly yaml?: string
  readonly environment?: Partial<ProxyEnvironment>
  /** What the origin does. */
  readonly answer?: ScriptedAnswer
}

const toUpstream = (bytes: string): Provoked => ({ status: 502, target: 'http://UP/', answer: { bytes } })
const toDial = (code: string, status = 502): Provoked => ({
  status,
  target: 'http://a.test/',
  environment: {
    connector: () => {
      const socket = new Socket()
      setImmediate(() => socket.destroy(Object.assign(new Error(code), { code })))
      return socket
    },
  },
})

/** A request that causes each error; those that a HEAD request cannot cause are in UNPROVOKED. */
const PROVOKED: Partial<Record<ProxyErrorType, Provoked>> = {
  dns_timeout: {
    status: 504,
    target: 'http://a.test/',
    yaml: 'dns: { timeout: 20ms }\n',
    environment: { lookup: () => new Promise(() => {}) },
  },
  dns_error: { status: 502, target: 'http://a.test/', environment: { lookup: async () => [] } },
  destination_not_found: { status: 404, target: '/nowhere' },
  destination_ip_prohibited: {
    status: 403,
    target: 'http://a.test/',
    environment: { lookup: async () => ['10.0.0.1'] },
  },
  destination_ip_unroutable: toDial('EHOSTUNREACH'),
  connection_refused: toDial('ECONNREFUSED'),
  connection_terminated: { status: 502, target: 'http://UP/', answer: { bytes: '', ending: 'end' } },
  connection_timeout: {
    status: 504,
    target: 'http://a.test/',
    yaml: 'limits: { connect_timeout: 20ms }\n',
    environment: { connector: () => new Socket() },
  },
  connection_limit_reached: toDial('EMFILE', 503),
  tls_protocol_error: { status: 502, target: '/tls', answer: { bytes: 'HTTP/1.1 400 Bad Request\r\n\r\n' } },
  http_request_error: { status: 400, target: '/up/..' },
  http_request_denied: { status: 403, target: 'http://a.example/' },
  http_response_header_section_size: toUpstream(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`),
  http_response_transfer_coding: toUpstream('HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n'),
  http_response_timeout: {
    status: 504,
    target: 'http://UP/',
    yaml: 'limits: { response_timeout: 20ms }\n',
    answer: { bytes: '' },
  },
  http_upgrade_failed: toUpstream(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
  ),
  http_protocol_error: toUpstream('HTTP/2.0 200 OK\r\n\r\n'),
  proxy_internal_error: { status: 500, target: '/file' },
  proxy_loop_detected: { status: 508, target: 'http://UP/', fields: 'Via: 1.1 sluice-test\r\n' },
}

/** Errors that a HEAD request cannot cause. */
const UNPROVOKED: readonly ProxyErrorType[] = [
  'connection_write_timeout',
  'tls_certificate_error',
  'http_response_incomplete',
  'proxy_internal_response',
]

/** Checks a response to HEAD, and that nothing separates it from the next response. */
async function checkHead(t: Test, client: RawPeer, status: number, type: ProxyErrorType): Promise<void> {
  const response = await readResponse(client, 'HEAD')
  checkRefusal(t, response, { status, method: 'HEAD', close: false })
  t.match(response.fields['proxy-status'], `error=${type};`)
  t.match(response.fields['content-length'], /^[1-9]\d+$/, 'as long as the answer to GET would be')
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal(await client.until(15), 'HTTP/1.1 200 OK')
  await client.until('\r\n\r\n')
  t.equal(await untilStable(() => client.received), '')
}

t.test('4.4 each error that HEAD can meet is answered without content, and the next request is', async t => {
  t.same([...Object.keys(PROVOKED), ...UNPROVOKED].sort(), [...TYPES].sort(), 'the whole table')
  for (const [type, provoked] of Object.entries(PROVOKED) as [ProxyErrorType, Provoked][]) {
    await t.test(`${type}: ${provoked.status}`, async t => {
      const { answer = { bytes: '' } } = provoked
      const origin = await scriptedOrigin(t, () => answer)
      // Bytes that are not HTTP never become a request there.
      const tls = await scriptedOrigin(t)
      const file = join(t.testdir({}), 'file')
      const origins = `origins:
  - { path: /up, forward: "http://${origin.authority}" }
  - { path: /tls, forward: "https://${tls.authority}" }
  - { path: /file, store: { directory: ${JSON.stringify(file)} } }
`
      const proxy = await testProxy(t, `${LOOPBACK_RULES}${origins}${provoked.yaml ?? ''}`, {
        wallClock: WALL_CLOCK,
        lookup: async () => ['127.0.0.1'],
        connector: options => {
          const socket = connect(options)
          // A server without TLS, for the handshake.
          if (options.port === tls.port)
            socket.once('connect', () => socket.unshift(Buffer.from(answer.bytes)))
          return socket
        },
        ...provoked.environment,
      })
      // Only now, because the configuration would be invalid.
      writeFileSync(file, 'no directory')
      const client = await rawClient(t, proxy.port)
      const target = provoked.target.replace('UP', origin.authority)
      client.write(`HEAD ${target} HTTP/1.1\r\nHost: h\r\n${provoked.fields ?? ''}\r\n`)
      await checkHead(t, client, provoked.status, type)
    })
  }

  await t.test('tls_certificate_error: 502', { skip: needs('openssl') }, async t => {
    const origin = await tlsOrigin(t, Authority.make(t.testdir()).issue({ san: 'DNS:api.test' }))
    const yaml = `origins: [{ path: /, forward: "https://api.test:${origin.port}" }]`
    const proxy = await testProxy(t, yaml, { wallClock: WALL_CLOCK, lookup: async () => ['127.0.0.1'] })
    const client = await rawClient(t, proxy.port)
    client.write('HEAD / HTTP/1.1\r\nHost: h\r\n\r\n')
    await checkHead(t, client, 502, 'tls_certificate_error')
  })
})

t.test('4.4 no error of the table puts content behind the head, whatever its status', async t => {
  for (const type of TYPES) {
    for (const status of [PROXY_ERRORS[type].status, 401, 407, 413, 416, 421, 429, 507]) {
      const fields = status === 407 ? ['Proxy-Authenticate', 'Basic'] : []
      const served = await servedConnection(t, exchange =>
        exchange.refuse(new ProxyError(type, 'no', { status, fields, detail: 'A sentence.' })),
      )
      const { client } = served
      const lengths: (string | undefined)[] = []
      for (const method of ['HEAD', 'GET', 'HEAD']) {
        client.write(`${method} / HTTP/1.1\r\nHost: h\r\n\r\n`)
        const response = await readResponse(client, method)
        lengths.push(response.fields['content-length'])
        if (method === 'GET') lengths.push(String(response.body.length))
        if (response.status !== status) t.fail(`${type} ${status}`)
      }
      t.equal(new Set(lengths).size, 1, `${type} ${status}: every length is that of the content of GET`)
      client.end()
      t.equal(await client.untilEnd(), '')
    }
  }
})
