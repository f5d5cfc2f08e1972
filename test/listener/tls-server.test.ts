/** What a TLS client and the server negotiate, and what an exchange knows of it. */
import { type ConnectionOptions, connect, type Server, type TLSSocket } from 'node:tls'
import { connect as connectTcp, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { createLogger } from '../../src/index.js'
import { bindServer } from '../../src/listener/bind.js'
import { TunnelRegistry } from '../../src/tunnel/registry.js'
import { Opening, TLS_HANDSHAKE } from '../../src/listener/opening.js'
import { ProxyServer } from '../../src/listener/server.js'
import { createTlsServer, secureContextOptions } from '../../src/listener/tls-server.js'
import type { TlsFiles } from '../../src/tls/tls-files.js'
import { AccessLog } from '../../src/observe/access-log.js'
import { acceptedSockets, untilRead } from '../kit/peers/until-read.js'
import { Authority } from '../kit/peers/authority.js'
import { A_PLACE, NO_LIMITS } from '../kit/fakes/no-limits.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { tlsClient } from '../kit/peers/tls-client.js'
import { needs } from '../kit/processes/command.js'
import { LIMITS } from '../kit/proxies/served-connection.js'
import { until } from '../kit/until.js'

const skip = needs('openssl')
const LOOPBACK = { host: '127.0.0.1', port: 0 }

/** A server that answers every request with the certificate of its client. */
async function served(t: Test, files: TlsFiles): Promise<{ port: number; server: ProxyServer }> {
  const logger = createLogger('silent', { write: () => {} })
  const server = new ProxyServer({
    now: () => performance.now(),
    tunnels: new TunnelRegistry(() => performance.now()),
    date: () => '',
    nextId: () => '',
    shares: NO_LIMITS,
    descriptors: NO_DESCRIPTOR_KEPT,
    handshakeFailed: () => {},
    proxyHeaderFailed: () => {},
  })
  server.configure({
    limits: LIMITS,
    extraMethods: [],
    observers: [new AccessLog({ logger, query: 'omit', wallClock: Date.now })],
    serve: exchange => {
      const body = Buffer.from(JSON.stringify(exchange.clientCertificate ?? 'none'))
      const content = exchange.respond({ status: 200, reason: 'OK', fields: [], contentLength: body.length })
      content.write(body)
      content.end()
      exchange.reported()
    },
    configHash: '',
    clientName: () => undefined,
    balancers: [],
    sourceOf: () => '',
    limitsAt: () => undefined,
  })
  const { port } = await server.listenTls(LOOPBACK, files)
  t.teardown(() => server.drain(0))
  return { port, server }
}

/** Only a TLS server; `secured` is called with the sockets that it accepts. */
async function bare(t: Test, files: TlsFiles, secured: (socket: TLSSocket) => void = () => {}) {
  const failures: string[] = []
  const sockets: TLSSocket[] = []
  let released = 0
  let onFailure = (): void => {}
  const events = {
    failed: (_address: string, code: string) => {
      failures.push(code)
      onFailure()
    },
    released: () => void released++,
  }
  const server: Server = createTlsServer(files, LIMITS.headerTimeoutMs, {
    connected: socket => {
      const { remoteAddress: address } = socket
      if (address === undefined) return undefined
      const settings = { limits: LIMITS, now: () => 0 }
      return new Opening(socket, { address, slot: A_PLACE }, TLS_HANDSHAKE, settings, events)
    },
    secured: socket => {
      sockets.push(socket)
      socket.on('error', () => {})
      secured(socket)
    },
  })
  const { port } = await bindServer(server, LOOPBACK)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    server,
    port,
    failures,
    sockets,
    released: () => released,
    failure: (): Promise<void> =>
      new Promise(resolve => {
        onFailure = resolve
        if (failures.length > 0) resolve()
      }),
  }
}

t.test('the exchange has the certificate of the client', { skip }, async t => {
  const folder = t.testdir()
  const [ca, other] = [Authority.make(folder), Authority.make(folder, 'other')]
  const [good, revoked] = [ca.issue({ subject: '/CN=ci', san: 'DNS:ci.example' }), ca.issue()]
  const files = { ...ca.issue({ san: 'DNS:localhost' }), clientCa: ca.cert, crl: ca.revoke([revoked]) }
  const { port } = await served(t, files)
  const valid = { kind: 'valid', names: ['ci.example'], subject: [{ attribute: 'CN', value: 'ci' }] }
  const table = [
    [{}, 'none'],
    [good, valid],
    [revoked, { kind: 'invalid', error: 'CERT_REVOKED' }],
    [ca.issue({ days: -1 }), { kind: 'invalid', error: 'CERT_HAS_EXPIRED' }],
    [other.issue(), { kind: 'invalid', error: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }],
  ] as const
  for (const [certificate, expected] of table) {
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const client = await tlsClient(t, port, { ...certificate, ca: ca.cert, maxVersion })
      for (let requests = 0; requests < 2; requests++) {
        client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
        t.match(JSON.parse((await readResponse(client)).body), expected)
      }
    }
  }
})

t.test('a server that requests no certificate gets none', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const { port } = await served(t, ca.issue({ san: 'DNS:localhost' }))
  const client = await tlsClient(t, port, { ...ca.issue(), ca: ca.cert })
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal(JSON.parse((await readResponse(client)).body), 'none')
})

/** Whether a second connection resumes the session of the first. */
async function resumes(t: Test, port: number, options: ConnectionOptions): Promise<boolean> {
  const first = connect({ ...options, host: '127.0.0.1', port, rejectUnauthorized: false })
  t.teardown(() => first.destroy())
  const session = await new Promise<Buffer>(resolve => first.once('session', resolve))
  const second = connect({ ...options, host: '127.0.0.1', port, rejectUnauthorized: false, session })
  t.teardown(() => second.destroy())
  await new Promise(resolve => second.once('secureConnect', resolve))
  return second.isSessionReused()
}

t.test(
  'no session is resumed if client certificates are requested: one may have been revoked meanwhile',
  { skip },
  async t => {
    const ca = Authority.make(t.testdir())
    const host = ca.issue()
    const open = await bare(t, host, socket => void socket.resume())
    const asking = await bare(t, { ...host, clientCa: ca.cert }, socket => void socket.resume())
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const { cert, key } = ca.issue()
      t.equal(await resumes(t, asking.port, { cert, key, maxVersion }), false, maxVersion)
      t.equal(await resumes(t, open.port, { maxVersion }), true, `${maxVersion}, without certificates`)
    }
  },
)

t.test('TLS 1.2 is not renegotiated', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const { port } = await bare(t, { ...ca.issue(), clientCa: ca.cert }, socket => void socket.resume())
  const client = await tlsClient(t, port, { maxVersion: 'TLSv1.2', rejectUnauthorized: false })
  const failed = new Promise<NodeJS.ErrnoException>(resolve => client.socket.once('error', resolve))
  client.socket.renegotiate({}, () => {})
  t.match(await failed, { code: 'ERR_SSL_NO_RENEGOTIATION' })
})

t.test('the only application protocol is http/1.1 (RFC 7301 §3.2)', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const { port, failures, failure } = await bare(t, ca.issue())
  for (const [offered, chosen] of [
    [undefined, false],
    [['http/1.1'], 'http/1.1'],
    [['h2', 'http/1.1'], 'http/1.1'],
  ] as const) {
    const protocols = offered === undefined ? {} : { ALPNProtocols: [...offered] }
    const client = await tlsClient(t, port, { ...protocols, rejectUnauthorized: false })
    t.equal(client.socket.alpnProtocol, chosen)
  }
  const options = { ALPNProtocols: ['h2'], rejectUnauthorized: false }
  await t.rejects(tlsClient(t, port, options), { code: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL' })
  await failure()
  t.same(failures, ['ERR_SSL_NO_APPLICATION_PROTOCOL'])
})

t.test(
  'a client that disconnects during the handshake is released, silently if it has sent nothing',
  { skip },
  async t => {
    const ca = Authority.make(t.testdir())
    const { port, failures, released } = await bare(t, ca.issue())
    for (const bytes of ['', '\x16\x03\x01']) {
      const client = await rawClient(t, port)
      client.write(bytes)
      client.end()
      t.equal(await client.untilEnd(), '')
      await client.closed()
    }
    await until('both to be released', () => released() >= 2, { seen: released })
    t.same(failures, ['ECONNRESET'])
  },
)

t.test('a reset by the client is reported as a reset', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const { port, server, failures, failure } = await bare(t, ca.issue())
  const accepted = new Promise<Socket>(resolve => server.once('connection', resolve))
  const client = connectTcp({ host: '127.0.0.1', port })
  client.write('\x16\x03\x01')
  await untilRead(client, await accepted)
  client.resetAndDestroy()
  await failure()
  t.same(failures, ['ECONNRESET'])
})

t.test('a TLS socket can be reset like any other', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const { port } = await bare(t, ca.issue(), socket => {
    socket.write('x')
    socket.once('data', () => t.equal(socket.resetAndDestroy(), socket))
  })
  const client = await tlsClient(t, port, { rejectUnauthorized: false })
  await client.until('x')
  client.write('y')
  t.equal(await client.outcome(), 'reset')
})

t.test('the options from files can be replaced while the server runs', { skip }, async t => {
  const folder = t.testdir()
  const [ca, clients] = [Authority.make(folder), Authority.make(folder, 'clients')]
  const [before, after] = [ca.issue({ subject: '/CN=before' }), ca.issue({ subject: '/CN=after' })]
  const revoked = clients.issue()
  const { server, port, sockets } = await bare(t, { ...before, clientCa: clients.cert })
  const { cert, key } = revoked
  const first = await tlsClient(t, port, { cert, key, rejectUnauthorized: false, maxVersion: 'TLSv1.2' })
  t.equal(first.socket.getPeerCertificate().subject.CN, 'before')
  t.ok(sockets[0]?.authorized)
  server.setSecureContext(
    secureContextOptions({ ...after, clientCa: clients.cert, crl: clients.revoke([revoked]) }),
  )
  const second = await tlsClient(t, port, { cert, key, rejectUnauthorized: false, maxVersion: 'TLSv1.2' })
  t.equal(second.socket.getPeerCertificate().subject.CN, 'after')
  t.notOk(sockets[1]?.authorized)
})

t.test('a handshake in progress is ended when the authorities for clients change', { skip }, async t => {
  const folder = t.testdir()
  const [ca, before, after] = [
    Authority.make(folder),
    Authority.make(folder, 'a'),
    Authority.make(folder, 'b'),
  ]
  const own = ca.issue()
  const { port, server } = await served(t, { ...own, clientCa: before.cert })
  const acceptedSocket = acceptedSockets(t)
  const begin = async () => {
    const client = await rawClient(t, port)
    const socket = await acceptedSocket(client.socket)
    client.write('\x16\x03\x01')
    await untilRead(client.socket, socket)
    return { client, socket }
  }
  const first = await begin()
  server.secure({ ...ca.issue(), clientCa: before.cert })
  t.notOk(first.socket.destroyed, 'another certificate of the server is no reason')
  const second = await begin()
  server.secure({ ...own, clientCa: after.cert })
  for (const { client, socket } of [first, second]) {
    t.ok(socket.destroyed)
    t.equal(await client.untilEnd(), '')
  }
})
