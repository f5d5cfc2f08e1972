/** How workers of `sluice run` share what they listen on: who gets a connection, and who else may have the port. */
import { readFileSync } from 'node:fs'
import { createServer, type ListenOptions } from 'node:net'
import t, { type Test } from 'tap'
import { Authority } from '../kit/peers/authority.js'
import { freePort, untilFree } from '../kit/peers/free-port.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { socketPath, unixClient } from '../kit/peers/unix-socket.js'
import { needs } from '../kit/processes/command.js'
import {
  ask,
  configured,
  echoes,
  FREE,
  halted,
  haltingWorker,
  killAtOnce,
  NO_REUSE_PORT,
  options,
  RULES,
  requestsOf,
  startedPids,
  startWorkers,
} from '../kit/processes/fleet.js'
import { installProgram, type Program, startProgram } from '../kit/processes/program.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'

const program = await installProgram(t)

const IN_USE = 'sluice: cannot listen at listen.proxy (--listen): listen EADDRINUSE: address already in use'

async function startOnUnixSocket(t: Test) {
  const path = await socketPath(t)
  const file = await configured(
    t,
    `listen: { proxy: ["unix:${path}"], admin: false }\nclients: [{ name: local, unix: true }]`,
  )
  const running = startProgram(t, [...program, '--config', file])
  await running.said(/"event":"listening"/)
  return { running, connect: (t: Test) => unixClient(t, path) }
}

/** Sockets that listen on the port on 127.0.0.1, whoever has them. */
function listeningSockets(port: number): number {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/net/tcp', 'latin1').split('\n')
  return lines.filter(line => new RegExp(`^ *\\d+: ${local} 00000000:0000 0A `).test(line)).length
}

async function stop(t: Test, { child, exited }: Program): Promise<void> {
  child.kill('SIGTERM')
  t.equal(await exited, 0)
}

t.test('connections over a Unix socket', async t => {
  const { running, connect } = await startOnUnixSocket(t)

  await t.test('are handed out in turn', async t => {
    const count = 60
    for (let i = 0; i < count; i++) t.match(await ask(await connect(t)), /^HTTP\/1\.1 200 /)
    const total = () => requestsOf(running).reduce((sum, requests) => sum + requests, 0)
    await running.until('all decisions to be logged', () => total() >= count)
    const [first = 0] = requestsOf(running)
    // One that has not yet said that it has the last one is passed over.
    t.ok(Math.abs(first - count / 2) <= 6, `${first} of ${count}`)
  })

  await t.test('on their way to a worker that dies are closed', async t => {
    const [first = 0] = startedPids(running)
    process.kill(first, 'SIGSTOP')
    const answers: Promise<string>[] = []
    // All but one go to the other.
    for (let i = 0; i < 6; i++) answers.push(ask(await connect(t)))
    let served = 0
    for (const answer of answers) void answer.then(text => (served += Number(text.includes(' 200 '))))
    await until('the other five to be answered', () => served >= 5, { seen: () => served })
    process.kill(first, 'SIGKILL')
    t.equal((await Promise.all(answers)).filter(text => text === '').length, 1)
    t.match(await ask(await connect(t)), /^HTTP\/1\.1 200 /)
  })

  await stop(t, running)
})

/** Connections that have sent a request; some are for a worker that has been halted. */
async function halfHeldConnections(t: Test, port: number): Promise<Promise<string>[]> {
  const clients: RawPeer[] = await Promise.all(Array.from({ length: 40 }, () => rawClient(t, port)))
  return clients.map(client => ask(client))
}

t.test('connections over TCP', async t => {
  const fleet = await startWorkers(t, program, `listen: { ${FREE} }`)

  await t.test('of which each worker gets its part', async t => {
    const count = 100
    for (let i = 0; i < count; i++) await options(t, fleet.port)
    const total = () => requestsOf(fleet).reduce((sum, requests) => sum + requests, 0)
    await fleet.until('all decisions to be logged', () => total() >= count)
    const [first = 0, second = 0] = requestsOf(fleet)
    t.equal(first + second, count)
    // What is left to chance falls short of a fifth in one of a hundred million runs.
    t.ok(Math.min(first, second) >= count / 5, `${first} and ${second}`)
  })

  await t.test('to a port that another Sluice cannot have as well, whatever workers it has', async t => {
    const file = await configured(t, `listen: { proxy: ["127.0.0.1:${fleet.port}"], admin: false }`)
    const startSecond = async () => {
      const second = startProgram(t, [...program, '--config', file])
      t.equal(await second.exited, 69)
      t.equal(second.stderr, `${IN_USE} 127.0.0.1:${fleet.port}\n`)
      t.equal(second.stdout, '')
    }
    await startSecond()
    const [first = 0] = fleet.pids()
    process.kill(first, 'SIGKILL')
    await fleet.said(/"worker_started","worker":3/)
    await startSecond()
  })

  await t.test('that a worker has not accepted end with it', async t => {
    const [, second = 0] = fleet.pids()
    process.kill(second, 'SIGSTOP')
    const before = requestsOf(fleet)[2] ?? 0
    const answers = await halfHeldConnections(t, fleet.port)
    await fleet.until('the third worker to decide', () => (requestsOf(fleet)[2] ?? 0) > before)
    process.kill(second, 'SIGKILL')
    const texts = await Promise.all(answers)
    t.ok(texts.some(text => text.startsWith('HTTP/1.1 200 ')))
    t.ok(texts.some(text => text === ''))
    t.ok(texts.every(text => text === '' || text.startsWith('HTTP/1.1 200 ')))
    for (let i = 0; i < 20; i++) t.match(await options(t, fleet.port), /^HTTP\/1\.1 200 /)
    await fleet.said(/"worker_started","worker":4/)
  })

  await t.test('that are not accepted at a stop are answered or end', async t => {
    const [, , third = 0] = fleet.pids()
    process.kill(third, 'SIGSTOP')
    const answers = await halfHeldConnections(t, fleet.port)
    fleet.child.kill('SIGTERM')
    await fleet.said(/"event":"stopping"/)
    process.kill(third, 'SIGCONT')
    for (const answer of await Promise.all(answers)) t.match(answer, /^$|^HTTP\/1\.1 200 /)
    t.equal(await fleet.exited, 0)
    await t.resolves(untilFree(fleet.port))
  })
})

t.test('a connection that comes to a worker as it drains is closed, whatever else it waits for', async t => {
  const origin = await rawOrigin(t)
  const fleet = await startWorkers(t, program, `listen: { ${FREE} }\n${RULES}\nshutdown: { drain: 60s }`)
  const opened = await openTunnel(t, fleet, origin)
  for (const pid of fleet.pids()) process.kill(pid, 'SIGSTOP')
  fleet.child.kill('SIGTERM')
  await fleet.said(/"event":"stopping"/)
  const ready = async () => (await fetch(`http://127.0.0.1:${fleet.adminPort}/ready`)).status
  await until('it to be ready no more', async () => (await ready()) === 503, { everyMs: OTHER_PROCESS_MS })
  // Both have been told by now, and will hear of these only after that.
  const clients = await Promise.all(Array.from({ length: 6 }, () => rawClient(t, fleet.port)))
  for (const pid of fleet.pids()) process.kill(pid, 'SIGCONT')
  // Where the kernel has them, they are reset.
  for (const client of clients) t.equal(await client.untilEnd().catch(() => ''), '')
  t.ok(await echoes(opened), 'the tunnel is untouched')
  opened.client.end()
  opened.upstream.end()
  t.equal(await fleet.exited, 0)
})

t.test(
  'each worker has a socket of its own, and so has the one that replaces it',
  { skip: NO_REUSE_PORT },
  async t => {
    const fleet = await startWorkers(t, haltingWorker(program, 3), `listen: { ${FREE} }`)
    t.equal(listeningSockets(fleet.port), 2)
    t.equal(listeningSockets(fleet.adminPort), 1)
    const [first = 0] = fleet.pids()
    process.kill(first, 'SIGKILL')
    await fleet.said(/"worker_exited","worker":1/)
    const next = await halted(fleet)
    t.equal(listeningSockets(fleet.port), 1)
    process.kill(next, 'SIGCONT')
    await fleet.said(/"worker_started","worker":3/)
    t.equal(listeningSockets(fleet.port), 2)
    await until('the third worker to answer', async () => {
      t.match(await options(t, fleet.port), /^HTTP\/1\.1 200 /)
      return (requestsOf(fleet)[2] ?? 0) > 0
    })
    await stop(t, fleet)
    t.equal(listeningSockets(fleet.port), 0)
  },
)

t.test(
  'what port 0 became stays when all workers die at once, by TLS too',
  { skip: NO_REUSE_PORT || needs('openssl') },
  async t => {
    const { certFile, keyFile } = Authority.make(t.testdir()).issue({ san: 'IP:127.0.0.1' })
    const fleet = await startWorkers(
      t,
      program,
      `listen: { ${FREE}, tls: { address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile} } }`,
    )
    const [, tls = ''] = await fleet.said(/"event":"listening".*"tls":"127\.0\.0\.1:(\d+)"/)
    t.equal(listeningSockets(Number(tls)), 2)
    await killAtOnce(fleet, fleet.pids())
    await fleet.said(/"worker_started","worker":3/)
    await fleet.said(/"worker_started","worker":4/)
    t.same([fleet.port, Number(tls)].map(listeningSockets), [2, 2])
    t.match(await options(t, fleet.port), /^HTTP\/1\.1 200 /)
    await stop(t, fleet)
    t.same([fleet.port, Number(tls)].map(listeningSockets), [0, 0])
  },
)

t.test('a port that another program shares (reusePort) is in use', { skip: NO_REUSE_PORT }, async t => {
  const server = createServer()
  const address: ListenOptions & { reusePort: boolean } = { host: '127.0.0.1', port: 0, reusePort: true }
  await new Promise<void>(resolve => server.listen(address, resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const file = await configured(t, `listen: { proxy: ["127.0.0.1:0", "127.0.0.1:${port}"], admin: false }`)
  const running = startProgram(t, [...program, '--config', file])
  t.equal(await running.exited, 69)
  t.equal(running.stderr, `${IN_USE} 127.0.0.1:${port}\n`)
})

t.test('two addresses of one configuration do not share a port', async t => {
  const port = await freePort()
  const file = await configured(
    t,
    `listen: { proxy: ["127.0.0.1:${port}", "0.0.0.0:${port}"], admin: false }`,
  )
  const running = startProgram(t, [...program, '--config', file])
  t.equal(await running.exited, 69)
  t.equal(running.stderr, `${IN_USE} 0.0.0.0:${port}\n`)
})
