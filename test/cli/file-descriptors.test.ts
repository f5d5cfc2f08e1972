/** A process that runs out of file descriptors refuses what is new, keeps what it has, and recovers. */
import { readdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { socketPath, unixClient } from '../kit/peers/unix-socket.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { installProgram, type Program, startProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

const program = await installProgram(t)
const FEW = 400
const skip = process.platform === 'linux' ? false : 'reads /proc, which Linux alone has'

async function start(
  t: Test,
  workers = 1,
  listen = '127.0.0.1:0',
): Promise<{ readonly program: Program; readonly port: number }> {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  await writeFile(
    file,
    `version: 1\nworkers: ${workers}\nlisten: { proxy: ["${listen}"], admin: false }\nclients: [{ name: near, cidr: ["127.0.0.0/8"] }, { name: local, unix: true }]\nrules: { local: { hosts: ["127.0.0.1"], ports: [any], addresses: ["127.0.0.1"] } }\nlimits: { connections: 20000, tunnels: 10000 }\nlog: { format: json }\nreload: { watch: false }\nshutdown: { drain: 0s }\n`,
  )
  const limited = ['sh', '-c', `ulimit -n ${FEW}; exec "$@"`, 'sh', ...program, '--config', file]
  const started = startProgram(t, limited)
  const [, port] = await started.said(/"proxy":\["(?:127\.0\.0\.1:|unix:.*)(\d*)"\]/)
  return { program: started, port: Number(port) }
}

/** @returns undefined when there is none to be had */
async function open(t: Test, port: number, origin: RawOrigin): Promise<RawPeer | undefined> {
  const client = await rawClient(t, port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  const head = await client.until('\r\n\r\n').catch(() => '')
  if (head.startsWith('HTTP/1.1 200 ')) return client
  if (head !== '') {
    t.match(head, /^HTTP\/1\.1 502 Sluice: out of file descriptors/)
    t.match(head, /\r\nRetry-After: 1\r\n/)
    await client.untilEnd()
  }
  client.destroy()
  return undefined
}

t.test('established tunnels continue, new ones are refused, and afterwards there is room again', async t => {
  const { program: started, port } = await start(t)
  await started.said(/"event":"few_file_descriptors"/)
  t.match(started.stdout, `"limit":${FEW},"needed":30064,`)
  const origin = await rawOrigin(t)
  const tunnels: RawPeer[] = []
  for (;;) {
    const client = await open(t, port, origin)
    if (client === undefined) break
    tunnels.push(client)
  }
  t.ok(tunnels.length > 5 && tunnels.length < FEW / 2, `${tunnels.length} tunnels`)
  // Until not even a connection can be had.
  const idle: RawPeer[] = []
  for (let closed = 0; closed < 3; ) {
    const client = await rawClient(t, port)
    client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
    const head = await client.until('\r\n\r\n').catch(() => '')
    if (head === '') closed += 1
    else {
      t.match(head, /^HTTP\/1\.1 200 /)
      idle.push(client)
    }
  }
  for (const [index, client] of tunnels.entries()) {
    const upstream = origin.peers[index]
    client.write(`up ${index}`)
    upstream?.write(`down ${index}`)
    t.equal(await upstream?.until(`up ${index}`), `up ${index}`)
    t.equal(await client.until(`down ${index}`), `down ${index}`)
  }
  const [ended, ...others] = tunnels
  for (const client of idle) client.destroy()
  ended?.reset()
  await started.said(/"close_reason":"client_reset"/)
  const again = await until('room for another tunnel', () => open(t, port, origin))
  again.write('new')
  // Others among them were connected to, and given up again.
  await until('the new tunnel to pass', () => origin.peers.some(({ received }) => received === 'new'))
  for (const client of others) t.notOk(client.socket.destroyed)
  started.child.kill('SIGTERM')
  for (const client of [...others, again]) client.destroy()
  t.equal(await started.exited, 0)
})

t.test('a worker that runs out is still passed connections, and loses none', { skip }, async t => {
  const path = await socketPath(t)
  const { program: started } = await start(t, 2, `unix:${path}`)
  const supervisor = started.child.pid ?? 0
  const held = () => readdirSync(`/proc/${supervisor}/fd`).length
  const before = held()
  const origin = await rawOrigin(t)
  const ask = async (request: string): Promise<RawPeer | undefined> => {
    const client = await unixClient(t, path)
    client.write(`${request} HTTP/1.1\r\nHost: h\r\n\r\n`)
    const head = await client.until('\r\n\r\n').catch(() => '')
    if (head.startsWith('HTTP/1.1 200 ')) return client
    client.destroy()
    return undefined
  }
  const clients: RawPeer[] = []
  // Until both have run out: with tunnels, which take two each, and then with what fills the rest.
  for (const request of [`CONNECT ${origin.authority}`, 'OPTIONS *']) {
    for (let refused = 0; refused < 20; ) {
      const asked = await Promise.all(Array.from({ length: 10 }, () => ask(request)))
      for (const client of asked) {
        if (client === undefined) refused += 1
        else clients.push(client)
      }
    }
  }
  // The supervisor holds none of them, once the last is passed on.
  await until('all to be passed on', async () => (await untilStable(held)) <= before, { seen: held })
  // A tunnel is over when both of its ends are.
  for (const client of clients) client.destroy()
  for (const peer of origin.peers) peer.destroy()
  // Both serve again: the number of a worker is part of the ids that it gives.
  const later = await rawOrigin(t)
  const decisions = new RegExp(`"decision","id":"[^"]+-(\\d)-[^\n]*"port":${later.port},`, 'g')
  const numbers = new Set<string>()
  await until('both workers to serve again', async () => {
    const client = await ask(`CONNECT ${later.authority}`)
    client?.destroy()
    for (const peer of later.peers) peer.destroy()
    for (const [, number = ''] of started.stdout.matchAll(decisions)) numbers.add(number)
    return numbers.size === 2
  })
  started.child.kill('SIGTERM')
  t.equal(await started.exited, 0)
})

t.test('the number of descriptors that each worker needs is logged', async t => {
  const { program: started } = await start(t, 3)
  await started.said(
    /"few_file_descriptors","limit":400,"needed":15064,.* need 15064 file descriptors, and each of 3 workers may have 400; /,
  )
  started.child.kill('SIGTERM')
  t.equal(await started.exited, 0)
})

t.test('too few descriptors for a start are one line on standard error, and 71', async t => {
  for (const few of [24, 40, 64]) {
    const limited = ['sh', '-c', `ulimit -n ${few}; exec "$@"`, 'sh', ...program, 'schema']
    const started = startProgram(t, limited)
    const code = await started.exited
    // Newer releases of Node read one module after another, and need fewer.
    if (code === 0 && !process.version.startsWith('v20.')) continue
    t.equal(code, 71, `${few}`)
    t.equal(started.stdout, '')
    const remedy = `a start needs 256, and the process may have ${few} \\(ulimit -n\\)`
    t.match(started.stderr, new RegExp(`^sluice: too few file descriptors: .*; ${remedy}\n$`))
  }
})

t.test('limits that the file leaves out fit the descriptors, also after a reload', { skip }, async t => {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  const write = (rest: string) =>
    writeFile(
      file,
      `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }\nlog: { format: json }\nreload: { watch: false }\n${rest}`,
    )
  await write('')
  const limited = ['sh', '-c', `ulimit -n ${FEW}; exec "$@"`, 'sh', ...program, '--config', file]
  const started = startProgram(t, limited)
  const [, adminPort] = await started.said(/"admin":"127\.0\.0\.1:(\d+)"/)
  await started.said(
    /"level":"info",[^\n]*"event":"limits_fitted","limit":400,"connections":224,"tunnels":112,/,
  )
  t.notMatch(started.stdout, 'few_file_descriptors')
  const limits = async () => {
    const status = (await (await fetch(`http://127.0.0.1:${adminPort}/status.json`)).json()) as {
      limits: { key: string; value: number }[]
    }
    return JSON.stringify(status.limits)
  }
  t.match(await limits(), '224')
  await write('error_note: call us\n')
  started.child.kill('SIGHUP')
  await started.said(/"event":"config_reloaded",[^\n]*"changed":\["error_note"\]/)
  t.match(await limits(), '224')
  started.child.kill('SIGTERM')
  t.equal(await started.exited, 0)
})
