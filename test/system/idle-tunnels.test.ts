/**
 * IDLE_TUNNELS (default 9,000) in one process at once: each carries bytes, none takes much memory, and when they are closed
 * all memory is released, so that as many further tunnels need no more.
 *
 * 64 KiB for each is about four times what one takes, and half of what two sockets with a read buffer would take. V8
 * decides when it collects closed tunnels, so the heap is too small for all tunnels that were ever open.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { parseExposition } from '../kit/peers/exposition.js'
import { allowOpenFiles } from '../kit/processes/open-files.js'
import { allowing, needsBuild, type Sluice, startSluice } from './program.js'
import { Changes, until } from '../kit/until.js'

const TUNNELS = Number(process.env['IDLE_TUNNELS'] ?? 9000)
const WARM = 200
const AT_ONCE = 100
const MOST_BYTES = 64 * 1024
const ROUNDS = 4
/** The heap limit: a tunnel takes 13 KiB of it, and the program itself 30 MiB. */
const HEAP_MIB = Math.ceil(40 + (1.1 * TUNNELS * 16) / 1024)
/** Descriptors of this process: both ends of each tunnel, and a few more files. */
const DESCRIPTORS = 2 * TUNNELS + 500
/** The descriptors of an idle process without tunnels. */
const FEW_DESCRIPTORS = 100

/** Clients use several addresses, as a single one may run out of ports. */
const ADDRESSES = Array.from({ length: 8 }, (_, index) => `127.0.0.${index + 2}`)

function skip(): string | false {
  if (process.platform !== 'linux') return 'reads /proc, which Linux alone has'
  const mayHave = allowOpenFiles(DESCRIPTORS) || process.env['CI'] === 'true'
  return mayHave ? needsBuild() : `needs ${DESCRIPTORS} file descriptors: ulimit -n ${DESCRIPTORS}`
}

/** Echoes what it receives. */
async function echoServer(t: Test): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    sockets.add(socket)
    socket.on('data', chunk => socket.write(chunk))
    socket.on('end', () => socket.end())
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise(resolve => server.close(resolve))
  })
  return (server.address() as { port: number }).port
}

class Tunnel {
  readonly #socket: Socket
  #received = ''
  readonly #changes = new Changes()

  constructor(proxyPort: number, authority: string, localAddress: string) {
    this.#socket = connect({ host: '127.0.0.1', port: proxyPort, localAddress, noDelay: true })
    this.#socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
    this.#socket.setEncoding('latin1').on('data', (text: string) => {
      this.#received += text
      this.#changes.notify()
    })
    this.#socket.on('error', error => {
      this.#received += `<${error.message}>`
    })
    this.#socket.on('close', () => this.#changes.notify())
  }

  get stands(): boolean {
    return !this.#socket.destroyed
  }

  /** Reads this many characters, or all until the end. */
  async take(length: number): Promise<string> {
    const arrived = () => this.#received.length >= length || !this.stands
    await until(`${length} characters`, arrived, { changes: this.#changes, seen: () => this.#received })
    const taken = this.#received.slice(0, length)
    this.#received = this.#received.slice(length)
    return taken
  }

  async echoes(message: string): Promise<boolean> {
    this.#socket.write(message)
    return (await this.take(message.length)) === message
  }

  close(): Promise<void> {
    return new Promise(resolve => {
      if (this.#socket.destroyed) resolve()
      this.#socket.once('close', () => resolve())
      this.#socket.end()
    })
  }

  destroy(): void {
    this.#socket.destroy()
  }
}

const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n'

/** @throws Error if one cannot be established */
async function open(sluice: Sluice, echoPort: number, count: number): Promise<Tunnel[]> {
  const tunnels: Tunnel[] = []
  while (tunnels.length < count) {
    const batch = Array.from({ length: Math.min(AT_ONCE, count - tunnels.length) }, (_, index) => {
      const address = ADDRESSES[index % ADDRESSES.length] ?? ''
      return new Tunnel(sluice.proxyPort, `127.0.0.1:${echoPort}`, address)
    })
    tunnels.push(...batch)
    for (const tunnel of batch) {
      const head = await tunnel.take(ESTABLISHED.length)
      if (head !== ESTABLISHED) throw new Error(`tunnel ${tunnels.length}: ${head}`)
    }
  }
  return tunnels
}

/** @returns how many of them echo what they receive */
async function echoing(tunnels: readonly Tunnel[]): Promise<number> {
  const results = await Promise.all(tunnels.map((tunnel, index) => tunnel.echoes(`tunnel ${index}`)))
  return results.filter(Boolean).length
}

function residentBytes({ pid }: Sluice): number {
  const [, kib] = /^VmRSS:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? []
  if (kib === undefined) throw new Error('no VmRSS')
  return Number(kib) * 1024
}

function openFiles({ pid }: Sluice): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

async function tunnelsActive({ adminUrl }: Sluice): Promise<number | undefined> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  return parseExposition(text, 'text').value('sluice_tunnels_active')
}

t.test(`${TUNNELS} tunnels`, { skip: skip() }, async t => {
  const echoPort = await echoServer(t)
  const sluice = await startSluice(
    t,
    `${allowing(echoPort)}limits: { connections: 20000, connections_per_client: 20000, tunnels: 20000, tunnels_per_client: 20000 }
`,
    [`--max-old-space-size=${HEAP_MIB}`],
  )
  const closeAll = async (tunnels: readonly Tunnel[]): Promise<void> => {
    await Promise.all(tunnels.map(tunnel => tunnel.close()))
    await until('no tunnel to be counted', async () => (await tunnelsActive(sluice)) === 0)
  }
  await closeAll(await open(sluice, echoPort, WARM))
  const atRest = residentBytes(sluice)

  const standing: number[] = []
  for (let round = 1; round <= ROUNDS; round++) {
    await t.test(`time ${round}`, async t => {
      const tunnels = await open(sluice, echoPort, TUNNELS)
      t.teardown(() => {
        for (const tunnel of tunnels) tunnel.destroy()
      })
      t.equal(await echoing(tunnels), TUNNELS)
      t.equal(await tunnelsActive(sluice), TUNNELS)
      t.ok(openFiles(sluice) > 2 * TUNNELS)
      standing.push(residentBytes(sluice))
      t.equal(await echoing(tunnels), TUNNELS, 'again')
      await closeAll(tunnels)
      t.ok(openFiles(sluice) < FEW_DESCRIPTORS, `${openFiles(sluice)} descriptors`)
    })
  }

  for (const bytes of standing)
    t.ok((bytes - atRest) / TUNNELS < MOST_BYTES, `${kib(bytes)}, and ${kib(atRest)} without`)
  const [first = 0] = standing
  t.comment(
    `memory: ${kib((first - atRest) / TUNNELS)} each; ${standing.map(kib)} in all, ${kib(atRest)} before`,
  )
  t.equal(await sluice.stop(), 0)
})

function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KiB`
}
