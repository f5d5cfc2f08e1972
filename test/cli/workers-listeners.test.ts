/** Where `sluice run` with worker processes is listened on: Unix sockets, sockets of systemd, load balancers. */
import { existsSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { socketPath, staleSocket, unixClient } from '../kit/peers/unix-socket.js'
import { configured, FREE, killAtOnce, startedPids, startWorkers } from '../kit/processes/fleet.js'
import { installProgram, startProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

const program = await installProgram(t)
const ASK = 'OPTIONS * HTTP/1.0\r\n\r\n'

/** Asks until both workers have answered. */
async function askBoth(running: { readonly stdout: string }, ask: () => Promise<string>): Promise<void> {
  const hasAnswered = (worker: number) =>
    new RegExp(`"decision","id":"[0-9a-f]+-${worker}-`).test(running.stdout)
  await until('both workers to answer', async () => {
    t.match(await ask(), /^HTTP\/1\.1 200 /)
    return hasAnswered(1) && hasAnswered(2)
  })
}

t.test('a Unix socket is made once, served by all, there again after their death, and removed', async t => {
  const path = await staleSocket(t)
  const admin = await socketPath(t)
  const file = await configured(
    t,
    `listen: { proxy: ["unix:${path}"], admin: "unix:${admin}", socket_mode: "0600" }\nclients: [{ name: local, unix: true }]`,
  )
  const running = startProgram(t, [...program, '--config', file])
  await running.said(/"event":"listening"/)
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.equal(statSync(admin).mode & 0o777, 0o600)
  const ask = async () => {
    const client = await unixClient(t, path)
    client.write(ASK)
    return client.untilEnd()
  }
  await askBoth(running, ask)
  const [first = 0] = startedPids(running)
  process.kill(first, 'SIGKILL')
  await running.said(/"worker_started","worker":3/)
  t.match(await ask(), /^HTTP\/1\.1 200 /)

  const second = startProgram(t, [...program, '--config', file])
  t.equal(await second.exited, 69)
  t.equal(second.stderr, `sluice: cannot listen: ${path} is in use: another process listens on it\n`)
  t.match(await ask(), /^HTTP\/1\.1 200 /, 'the first goes on')

  const [, two = 0, three = 0] = startedPids(running)
  await killAtOnce(running, [two, three])
  await running.said(/"worker_started","worker":[45]/)
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.match(await ask(), /^HTTP\/1\.1 200 /, 'all of them have died at once')
  running.child.kill('SIGTERM')
  t.equal(await running.exited, 0)
  t.notOk(existsSync(path))
  t.notOk(existsSync(admin))
})

/** As systemd starts it, with one socket. */
async function activated(t: Test) {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  // Node tells nobody the descriptor.
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle
  const file = await configured(t, 'listen: { proxy: ["systemd:proxy"], admin: false }')
  // LISTEN_PID has to be the process itself, which only a shell that becomes it can say.
  const running = startProgram(
    t,
    ['sh', '-c', 'LISTEN_PID=$$ exec "$@"', 'sh', ...program, '--config', file],
    { env: { LISTEN_FDS: '1', LISTEN_FDNAMES: 'proxy' }, descriptors: [fd] },
  )
  server.close()
  const [line] = await running.said(/\{[^\n]*"event":"listening".*\n/)
  t.same(JSON.parse(line).proxy, [`127.0.0.1:${port}`])
  return { running, port }
}

t.test('all workers serve on the sockets of systemd, those that come later too', async t => {
  const { running, port } = await activated(t)
  const ask = async () => {
    const client = await rawClient(t, port)
    client.write(ASK)
    return client.untilEnd()
  }
  await askBoth(running, ask)
  const [first = 0] = startedPids(running)
  process.kill(first, 'SIGKILL')
  await running.said(/"worker_started","worker":3/)
  await until('the third worker to answer', async () => {
    t.match(await ask(), /^HTTP\/1\.1 200 /)
    return /"decision","id":"[0-9a-f]+-3-/.test(running.stdout)
  })
  running.child.kill('SIGTERM')
  t.equal(await running.exited, 0)
})

t.test('when all workers die at once, and the sockets of systemd with them, the program ends', async t => {
  const { running } = await activated(t)
  await killAtOnce(running, startedPids(running))
  t.equal(await running.exited, 69)
  t.match(running.stdout, /"level":"fatal".*"event":"stopping","error":"all workers have ended at once, and/)
})

t.test('a load balancer tells all of them the address of the client', async t => {
  const fleet = await startWorkers(
    t,
    program,
    `listen: { ${FREE}, proxy_protocol: { from: ["127.0.0.1"] } }\nclients: [{ name: far, cidr: ["192.0.2.7"] }]`,
  )
  await askBoth(fleet, async () => {
    const client = await rawClient(t, fleet.port)
    client.write(`PROXY TCP4 192.0.2.7 192.0.2.1 1000 3128\r\n${ASK}`)
    return client.untilEnd()
  })
  t.match(fleet.stdout, /"decision".*"client":"far"/)
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})
