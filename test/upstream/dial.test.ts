import { type AddressInfo, connect, createServer, type TcpNetConnectOpts } from 'node:net'
import { createSecureContext } from 'node:tls'
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { ProxyError } from '../../src/errors.js'
import { parseCidr } from '../../src/net/cidr.js'
import type { OwnListener, Permit } from '../../src/policy/permit.js'
import { Dialer, type DialerOptions } from '../../src/upstream/dial.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { grantOf, policy, request } from '../kit/fakes/policy.js'
import { until } from '../kit/until.js'

/** The properties of an interface that the system reports in addition to its address. */
const LOOPBACK = { family: 'IPv4', netmask: '', mac: '', internal: true, cidr: null } as const
const never = new AbortController().signal
const POLICY = policy({
  rules: {
    web: {
      hosts: ['*', '127.0.0.1', '::1', '203.0.113.9'],
      ports: ['any'],
      addresses: ['127.0.0.0/8', '::1/128'],
    },
  },
})

function grant(authority: string) {
  return grantOf(POLICY.admit(request(`CONNECT ${authority}`)))
}

/** The `cached` of a resolver that caches nothing. */
const nothing = (): undefined => undefined

function dialer(options: Partial<DialerOptions> & { addresses?: Record<string, string[]> } = {}): Dialer {
  const { addresses = {}, ...rest } = options
  return new Dialer({
    resolver: { cached: nothing, resolve: async name => addresses[name] ?? [] },
    inForce: { policy: POLICY },
    connectTimeoutMs: 60_000,
    descriptors: NO_DESCRIPTOR_KEPT,
    now: () => performance.now(),
    ...rest,
  })
}

async function permitFor(authority: string, addresses: Record<string, string[]> = {}): Promise<Permit> {
  return (await dialer({ addresses }).permit(grant(authority), { signal: never })).permit
}

t.test('a permit', async t => {
  await t.test('contains every vetted address of the name, and the time that DNS took', async t => {
    let now = 5
    const resolver = { cached: nothing, resolve: async () => ['1.1.1.1', '2606:4700::1', '::ffff:8.8.8.8'] }
    const times = [5, 12]
    const one = dialer({ resolver, now: () => times.shift() ?? ++now })
    const { permit, dnsMs } = await one.permit(grant('a.test:443'), { signal: never })
    t.same(
      permit.addresses.map(({ text }) => text),
      ['1.1.1.1', '2606:4700::1', '8.8.8.8'],
    )
    t.equal(dnsMs, 7)
  })

  await t.test('for an address literal needs no DNS query', async t => {
    const asked = (): never => {
      throw new Error('asked')
    }
    const resolver = { cached: asked, resolve: asked }
    for (const [authority, address] of [
      ['127.0.0.1:80', '127.0.0.1'],
      ['[::1]:80', '::1'],
    ] as const) {
      const { permit, dnsMs } = await dialer({ resolver }).permit(grant(authority), { signal: never })
      t.same([permit.addresses.map(({ text }) => text), dnsMs], [[address], undefined])
      t.same(dialer({ resolver }).permitIfKnown(grant(authority)), { permit, dnsMs }, 'at once')
    }
  })

  await t.test('is available at once if the addresses are cached, and is vetted all the same', async t => {
    const kept: Record<string, string[]> = { 'a.test': ['1.1.1.1'], 'b.test': ['1.1.1.1', '10.0.0.1'] }
    const one = dialer({ resolver: { cached: name => kept[name], resolve: async () => [] } })
    const { permit, dnsMs } = one.permitIfKnown(grant('a.test:443')) ?? {}
    t.same([permit?.addresses.map(({ text }) => text), dnsMs], [['1.1.1.1'], 0])
    t.throws(() => one.permitIfKnown(grant('b.test:443')), {
      message: /./,
      type: 'destination_ip_prohibited',
      status: 403,
    })
    t.equal(one.permitIfKnown(grant('c.test:443')), undefined, 'has to be asked for')
  })

  await t.test('is refused with 403 and the reason if one address is not allowed', async t => {
    for (const bad of ['10.0.0.1', '169.254.169.254', '::ffff:10.0.0.1', 'fe80::1', 'not an address']) {
      await t.rejects(
        dialer({ addresses: { 'a.test': ['1.1.1.1', bad] } }).permit(grant('a.test:443'), { signal: never }),
        { message: /./, type: 'destination_ip_prohibited', status: 403, detail: /./ },
        bad,
      )
    }
  })

  await t.test('for a listener of our own is refused with 508', async t => {
    const own = policy(
      { rules: { web: { hosts: ['*'], ports: ['any'], addresses: ['127.0.0.0/8'] } } },
      { ownListeners: [{ cidr: parseCidr('127.0.0.1'), port: 3128, wildcard: false, role: 'proxy' }] },
    )
    const dialing = dialer({ inForce: { policy: own }, addresses: { 'a.test': ['127.0.0.1'] } })
    const granted = grantOf(own.admit(request('CONNECT a.test:3128')))
    await t.rejects(dialing.permit(granted, { signal: never }), {
      message: /./,
      type: 'proxy_loop_detected',
      status: 508,
    })
  })

  await t.test('fails with the error of DNS, or with the reason of the signal', async t => {
    const failed = new ProxyError('dns_error', 'no address found for a.test')
    const failing = dialer({ resolver: { cached: nothing, resolve: () => Promise.reject(failed) } })
    await t.rejects(failing.permit(grant('a.test:443'), { signal: never }), failed)

    const reason = new Error('gone')
    const asker = { signal: AbortSignal.abort(reason) }
    const leaving = dialer({
      resolver: { cached: nothing, resolve: (_name, { signal }) => Promise.reject(signal.reason) },
    })
    await t.rejects(leaving.permit(grant('a.test:443'), asker), reason)
  })
})

t.test("connects only to address literals of the permit, without Node's own address selection", async t => {
  const options: TcpNetConnectOpts[] = []
  const permit = await permitFor('a.test:443', { 'a.test': ['1.1.1.1', '2606:4700::1'] })
  const { connector } = dialled(given => {
    options.push(given)
    throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
  })
  await t.rejects(dialer({ connector }).connect(permit, never), {
    type: 'connection_refused',
    status: 502,
    message: 'connection refused: a.test:443',
  })
  const common = { port: 443, autoSelectFamily: false, allowHalfOpen: true, noDelay: true }
  t.match(options, [
    { host: '2606:4700::1', family: 6, ...common },
    { host: '1.1.1.1', family: 4, ...common },
  ])
  t.notOk(options.some(option => 'lookup' in option))
})

async function listening(t: Test, host: string): Promise<number> {
  const server = createServer(socket => socket.resume())
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  t.teardown(() => server.close())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

t.test('a connection has its address and the time that connecting took', async t => {
  const times = [10, 14]
  const port = await listening(t, '127.0.0.1')
  const permit = await permitFor(`a.test:${port}`, { 'a.test': ['127.0.0.1'] })
  const connection = await dialer({ now: () => times.shift() ?? 0 }).connect(permit, never)
  t.teardown(() => connection.socket.destroy())
  t.match(connection, { address: { text: '127.0.0.1' }, port, where: `127.0.0.1:${port}`, connectMs: 4 })
  t.equal(connection.socket.remotePort, port)
  t.ok(connection.socket.listenerCount('error') > 0, 'an error is nobody’s exception')
})

t.test('a second address is tried if the first does not respond', async t => {
  const port = await listening(t, '127.0.0.1')
  const permit = await permitFor('a.test:443', { 'a.test': ['2606:4700::1', '1.1.1.1'] })
  const { connector, targets } = dialled(options =>
    options.host === '1.1.1.1' ? toLoopback(port)(options) : connect({ host: '127.0.0.1', port: 1 }),
  )
  const connection = await dialer({ connector }).connect(permit, never)
  t.teardown(() => connection.socket.destroy())
  t.equal(connection.where, '1.1.1.1:443')
  t.same(targets, ['2606:4700::1 443', '1.1.1.1 443'])
})

t.test('an IPv6 address is written in brackets', async t => {
  const port = await listening(t, '127.0.0.1')
  const permit = await permitFor('[::1]:443')
  const { connector } = dialled(toLoopback(port))
  const connection = await dialer({ connector }).connect(permit, never)
  t.teardown(() => connection.socket.destroy())
  t.equal(connection.where, '[::1]:443')
})

t.test('a connect timeout is 504, and the attempt is closed', async t => {
  const { connector, sockets } = dialled()
  const permit = await permitFor('127.0.0.1:443')
  await t.rejects(dialer({ connector, connectTimeoutMs: 20 }).connect(permit, never), {
    type: 'connection_timeout',
    status: 504,
    message: 'connect timeout exceeded: 127.0.0.1:443',
  })
  t.equal(sockets[0]?.destroyed, true)
})

t.test('a signal cancels it with its reason', async t => {
  const { connector, sockets } = dialled()
  const permit = await permitFor('127.0.0.1:443')
  const controller = new AbortController()
  const connecting = dialer({ connector }).connect(permit, controller.signal)
  const reason = new Error('gone')
  controller.abort(reason)
  await t.rejects(connecting, reason)
  t.equal(sockets[0]?.destroyed, true)
  await t.rejects(dialer({ connector }).connect(permit, AbortSignal.abort(reason)), reason)
  t.equal(sockets.length, 1, 'and opens nothing when it was aborted before')
})

t.test('errors of system calls are translated by one table', async t => {
  const permit = await permitFor('127.0.0.1:443')
  for (const [code, type] of [
    ['ENETUNREACH', 'destination_ip_unroutable'],
    ['EMFILE', 'connection_limit_reached'],
    ['ETIMEDOUT', 'connection_timeout'],
  ] as const) {
    const { connector, sockets } = dialled()
    const connecting = dialer({ connector }).connect(permit, never)
    sockets[0]?.destroy(Object.assign(new Error(code), { code }))
    await t.rejects(connecting, { message: /./, type })
  }
})

t.test('a connection that leads to a listener of our own', async t => {
  const received: Promise<number>[] = []
  const server = createServer(socket => {
    socket.resume()
    received.push(new Promise(resolve => socket.once('close', () => resolve(socket.bytesRead))))
  })
  await new Promise<void>(resolve => server.listen(0, '0.0.0.0', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo

  /** Dials one of its addresses as if it had been added after the start: the policy knows only another one. */
  async function dial(address: string, own: Partial<OwnListener>, ...interfaces: string[]) {
    const known = { cidr: parseCidr('203.0.113.1'), port, wildcard: true, role: 'proxy', ...own } as const
    const made = policy(
      { rules: { web: { hosts: ['*'], ports: ['any'], addresses: ['127.0.0.0/8'] } } },
      { ownListeners: [known] },
    )
    const dialing = dialer({
      inForce: { policy: made },
      addresses: { 'a.test': [address] },
      interfaces: () => ({ lo: interfaces.map(own => ({ ...LOOPBACK, address: own })), none: undefined }),
    })
    const asked = grantOf(made.admit(request(`CONNECT a.test:${port}`)))
    const { permit } = await dialing.permit(asked, { signal: never })
    return dialing.connect(permit, never)
  }

  await t.test('is refused by the policy before anything is sent', async t => {
    const loop = { type: 'proxy_loop_detected', status: 508, reason: 'own_address' }
    await t.rejects(dial('127.0.0.1', {}), { ...loop, message: `a.test:${port} is this proxy itself` })
    await t.rejects(dial('127.0.0.1', { role: 'admin' }), {
      type: 'destination_ip_prohibited',
      status: 403,
      reason: 'own_address',
      message: `a.test:${port} is the admin listener`,
    })
    // It is dialled from 127.0.0.1, like a secondary address of its network.
    await t.rejects(dial('127.0.0.2', {}, '192.0.2.1', '127.0.0.2'), { ...loop, message: /itself/ })
    await t.rejects(dial('127.0.0.2', {}, '::ffff:127.0.0.2'), { ...loop, message: /itself/ })
    await until('the fourth connection', () => received.length >= 4, { seen: () => received.length })
    t.same(await Promise.all(received.splice(0)), [0, 0, 0, 0])
  })

  await t.test('is not assumed if the port, the address or the machine is different', async t => {
    for (const connecting of [
      dial('127.0.0.1', { port: port - 1 }),
      dial('127.0.0.1', { wildcard: false }),
      dial('127.0.0.2', {}, '127.0.0.1', '127.0.0.3'),
    ]) {
      const { socket } = await connecting
      t.equal(socket.destroyed, false)
      socket.destroy()
    }
  })
})

t.test('a permit for a configured upstream', async t => {
  const host = { kind: 'name', name: 'up.test' } as const
  const addresses = { 'up.test': ['10.0.0.5', '127.0.0.1'] }
  await t.test('contains all addresses of its name, wherever they are', async t => {
    const permit = await dialer({ addresses }).permitConfigured(
      { source: 'key', host, port: 80 },
      { signal: never },
    )
    t.match(permit.grant, { rule: 'key', port: 80 })
    t.same(
      permit.addresses.map(({ text }) => text),
      ['10.0.0.5', '127.0.0.1'],
    )
  })

  await t.test('for an address literal needs no DNS query', async t => {
    const literal = { source: 'key', host: { kind: 'ipv6', name: '::1' }, port: 80 } as const
    const resolver = { cached: nothing, resolve: async () => Promise.reject(new Error('asked')) }
    const permit = await dialer({ resolver }).permitConfigured(literal, { signal: never })
    t.equal(permit.addresses[0]?.text, '::1')
  })

  await t.test('is made again only for other addresses or another policy', async t => {
    const answers = { 'up.test': ['10.0.0.5'] }
    const inForce = { policy: POLICY }
    const one = dialer({ addresses: answers, inForce })
    for (const upstream of [
      { source: 'key', host, port: 80 },
      { source: 'key', host: { kind: 'ipv4', name: '10.0.0.5' }, port: 80 },
    ] as const) {
      const permitNow = (): Promise<Permit> => one.permitConfigured(upstream, { signal: never })
      const first = await permitNow()
      answers['up.test'] = ['10.0.0.5']
      t.equal(await permitNow(), first)
      inForce.policy = policy({ rules: {} })
      const second = await permitNow()
      t.not(second, first)
      answers['up.test'] = ['10.0.0.5', '10.0.0.6']
      t.equal((await permitNow()) === second, upstream.host.kind === 'ipv4')
      answers['up.test'] = ['10.0.0.7']
      const last = (await permitNow()).addresses.map(({ text }) => text)
      t.same(last, upstream.host.kind === 'name' ? ['10.0.0.7'] : ['10.0.0.5'])
    }
  })

  await t.test('is refused for a listener of our own', async t => {
    const own = { cidr: parseCidr('127.0.0.1'), port: 80, wildcard: false, role: 'proxy' } as const
    const policyOf = policy({ rules: {} }, { ownListeners: [own] })
    const permit = dialer({ addresses, inForce: { policy: policyOf } }).permitConfigured(
      { source: 'key', host, port: 80 },
      { signal: never },
    )
    await t.rejects(permit, { message: /./, type: 'proxy_loop_detected', reason: 'own_address', status: 508 })
  })
})

t.test('a connection that would take one of the reserved descriptors is closed', async t => {
  const origin = await rawOrigin(t)
  const permit = await permitFor(origin.authority)
  const asked: (number | undefined)[] = []
  const isKept = (descriptor: number | undefined): boolean => asked.push(descriptor) > 0
  await t.rejects(dialer({ descriptors: { isKept } }).connect(permit, never), {
    type: 'connection_limit_reached',
    message: `out of file descriptors: ${origin.authority}`,
  })
  t.equal(asked.length, 1)
  t.type(asked[0], 'number')
})

t.test('the TLS handshake gets what connecting has left of the common timeout', async t => {
  const origin = await rawOrigin(t)
  const permit = await permitFor(origin.authority)
  const clock = new ManualClock()
  const [left, whole] = [pauseTimers(t, 4_000_000), pauseTimers(t, 10_000_000)]
  const { connector } = dialled(options => {
    clock.advance(6_000_000)
    return connect(options)
  })
  const dialing = dialer({ connector, connectTimeoutMs: 10_000_000, now: clock.now })
  const connecting = dialing.connectTls(permit, createSecureContext(), never)
  const peer = await origin.accept()
  await peer.until('\x16')
  t.same([left.set, left.running, whole.set, whole.running], [1, 1, 1, 0])
  await left.fire()
  await t.rejects(connecting, {
    type: 'connection_timeout',
    message: `TLS handshake timed out: ${origin.authority}`,
  })
  await peer.untilEnd()
})
