/**
 * The program under faulty traffic of forty clients, for FAULTY_TRAFFIC_SECONDS (default 300; 15 with CI=true), while its
 * configuration is reloaded. Two of the clients send only well-formed requests, which must all get correct responses.
 * Afterwards no connection, descriptor or memory may be left. FAULTY_TRAFFIC_SEED repeats the choices of another run.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { createRandom } from '../kit/fakes/random.js'
import { startDnsServer, type TestDnsServer } from '../kit/peers/dns-server.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { until, within } from '../kit/until.js'
import { FaultyClient } from './faulty-client.js'
import { type FaultyOrigin, faultyOrigin } from './faulty-origin.js'
import { FAULTY, type Scenario, SILENT_NAMES, WELL_FORMED } from './faulty-scenarios.js'
import { type LogLine, needsBuild, type Sluice, startSluice } from './program.js'

const SECONDS = Number(process.env['FAULTY_TRAFFIC_SECONDS'] ?? (process.env['CI'] === 'true' ? 15 : 300))
const SEED = Number(process.env['FAULTY_TRAFFIC_SEED'] ?? Date.now() % 2 ** 31)
const CLIENTS = 40
const WELL_FORMED_CLIENTS = 2
/** The number of exchanges after which the clients stop. */
const MAX_EXCHANGES = 1_000_000
/** A reload may close connections of the previous configuration, so there is none in the last third of the time. */
const RELOAD_MS = 1000
const RELOADING = 2 / 3
const SAMPLE_MS = 200
const MEBIBYTE = 2 ** 20
/** How much the memory of the process may grow from the first third of the time to the last. */
const GROWTH_BYTES = 64 * MEBIBYTE
const MAX_PROBLEMS = 20

const skip = process.platform === 'linux' ? needsBuild() : 'reads /proc, which Linux alone has'

/** Each version has another rule and other limits, none of which affects the traffic. */
function configuration({ origin, dns, directory }: Surroundings, version: number): string {
  const ports = [origin.port, origin.badPort, origin.echoPort].join(', ')
  return `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }
rules:
  local: { hosts: ["127.0.0.1", "*.test"], ports: [${ports}], addresses: ["127.0.0.1/32"] }
  other-${version}: { hosts: ["host-${version}.example"], ports: [443] }
dns: { servers: ["${dns.address}"], timeout: 1s }
origins:
  - { path: /store, store: { directory: ${directory}, write: ["127.0.0.0/8"] } }
  - { path: /up, forward: "http://127.0.0.1:${origin.port}" }
  - { path: /bad, forward: "http://127.0.0.1:${origin.badPort}" }
reload: { watch: false }
limits: { header_timeout: 3s, response_timeout: 3s, keepalive_idle: 3s, body_idle: 5s, header_fields: ${100 + version} }
`
}

interface Surroundings {
  readonly origin: FaultyOrigin
  readonly dns: TestDnsServer
  /** Of the store. */
  readonly directory: string
}

/** Checks the log: each exchange has one decision and one close, and there are no internal errors. */
class Log {
  readonly problems: string[] = []
  readonly #open = new Set<unknown>()
  #exchanges = 0
  #reloaded: ((event: unknown) => void) | undefined

  get exchanges(): number {
    return this.#exchanges
  }

  /** Exchanges with a decision and no close yet. */
  get open(): number {
    return this.#open.size
  }

  /** The result of the next reload. */
  reloaded(): Promise<unknown> {
    return new Promise(resolve => {
      this.#reloaded = resolve
    })
  }

  readonly takes = (line: LogLine): boolean => {
    const { event, id, level, error } = line
    const known = this.#open.has(id)
    if (event === 'decision') {
      this.#exchanges += 1
      this.#open.add(id)
    } else if (event === 'close') this.#open.delete(id)
    const isFault = level === 'error' || level === 'fatal' || error === 'proxy_internal_error'
    const isOdd = (event === 'decision' && known) || (event === 'close' && !known)
    if (isOdd || (isFault && event !== 'config_rejected')) this.problems.push(JSON.stringify(line))
    if (event === 'config_reloaded' || event === 'config_rejected') this.#reloaded?.(event)
    return event === 'decision' || event === 'close'
  }
}

/** What a client has done, how often, and its problems. */
class Traffic {
  readonly problems: string[] = []
  readonly counts = new Map<string, number>()
  #exchanges = 0
  #ended = false

  get exchanges(): number {
    return this.#exchanges
  }

  end(): void {
    this.#ended = true
  }

  /** Runs random scenarios, one after another, until the end. */
  async run(client: FaultyClient, scenarios: Readonly<Record<string, Scenario>>): Promise<void> {
    const names = Object.keys(scenarios)
    while (!this.#ended && this.#exchanges < MAX_EXCHANGES && this.problems.length < MAX_PROBLEMS) {
      const name = client.pick(names)
      const scenario = scenarios[name]
      if (scenario !== undefined) await this.once(client, name, scenario)
    }
  }

  async once(client: FaultyClient, name: string, scenario: Scenario): Promise<void> {
    this.#exchanges += 1
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
    for (const step of [() => scenario(client), () => client.finish()]) {
      try {
        await step()
      } catch (error) {
        this.problems.push(`${name}: ${(error as Error).message}`)
      }
    }
  }
}

/** Reloads by SIGHUP; every fifth file is invalid. @returns unexpected results */
async function reload(sluice: Sluice, log: Log, surroundings: Surroundings, end: number): Promise<string[]> {
  const problems: string[] = []
  for (let version = 1; performance.now() < end; version++) {
    const isBad = version % 5 === 0
    await writeFile(`${sluice.configFile}.new`, isBad ? 'version: 0\n' : configuration(surroundings, version))
    await rename(`${sluice.configFile}.new`, sluice.configFile)
    const reloaded = within(`version ${version} to be read`, log.reloaded())
    process.kill(sluice.pid, 'SIGHUP')
    const event = await reloaded
    if (event !== (isBad ? 'config_rejected' : 'config_reloaded'))
      problems.push(`version ${version}: ${event}`)
    await delay(RELOAD_MS)
  }
  return problems
}

/** The descriptors of a process by kind: how many sockets, pipes, files. */
function descriptors(pid: number): string {
  const counts = new Map<string, number>()
  for (const fd of readdirSync(`/proc/${pid}/fd`)) {
    let kind: string
    try {
      kind = readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/\[\d+\]$/, '')
    } catch {
      // It has been closed meanwhile.
      continue
    }
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  return [...counts]
    .sort()
    .map(([kind, count]) => `${kind} ${count}`)
    .join('\n')
}

function residentBytes(pid: number): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? []
  return Number(kibibytes) * 1024
}

/** The median of the samples of a part of the time, given as fractions from 0 to 1. */
function median(samples: readonly number[], from: number, to: number): number {
  const part = samples
    .slice(Math.floor(samples.length * from), Math.ceil(samples.length * to))
    .sort((a, b) => a - b)
  return part[part.length >> 1] ?? 0
}

/** Waits for a condition with patience: the program keeps idle connections for some seconds, and timeouts must expire. */
async function quiet(what: string, look: () => boolean, seen?: () => unknown): Promise<void> {
  await until(what, look, { everyMs: SAMPLE_MS, ...(seen === undefined ? {} : { seen }) })
}

t.test(
  `${SECONDS} seconds, FAULTY_TRAFFIC_SEED=${SEED}`,
  { skip, timeout: (SECONDS + 180) * 1000 },
  async t => {
    const origin = await faultyOrigin(t)
    const silent = SILENT_NAMES.map(name => [name, 'silent'] as const)
    const dns = await startDnsServer({
      zone: { 'good.test': { A: ['127.0.0.1'] }, ...Object.fromEntries(silent) },
    })
    t.teardown(() => dns.close())
    const surroundings = { origin, dns, directory: await temporaryDirectory(t) }
    const log = new Log()
    const sluice = await startSluice(t, configuration(surroundings, 0), [], log.takes)
    const { port, badPort, echoPort } = origin
    const adminPort = Number(new URL(sluice.adminUrl).port)
    const place = { proxyPort: sluice.proxyPort, adminPort, port, badPort, echoPort }
    const random = createRandom(SEED)
    const clients = Array.from(
      { length: CLIENTS },
      (_, n) => new FaultyClient(n, createRandom(random(2 ** 31)), place),
    )
    const rested = new Traffic()
    const eachOnce = async (asking: readonly FaultyClient[]): Promise<void> => {
      for (const [name, scenario] of Object.entries(WELL_FORMED)) {
        for (const client of asking) await rested.once(client, name, scenario)
      }
    }
    // The program has done by then what it does only once.
    await eachOnce(clients.slice(0, 1))
    await quiet('no connection to an origin', () => origin.open === 0)
    const before = descriptors(sluice.pid)

    const wellFormed = new Traffic()
    const faulty = new Traffic()
    const samples: number[] = []
    const sampling = setInterval(() => samples.push(residentBytes(sluice.pid)), SAMPLE_MS)
    t.teardown(() => clearInterval(sampling))

    const started = performance.now()
    const reloading = reload(sluice, log, surroundings, started + SECONDS * 1000 * RELOADING)
    const running = clients.map((client, n) =>
      n < WELL_FORMED_CLIENTS
        ? wellFormed.run(client, WELL_FORMED)
        : faulty.run(client, { ...FAULTY, ...WELL_FORMED }),
    )
    await delay(SECONDS * 1000)
    clearInterval(sampling)
    wellFormed.end()
    faulty.end()
    await Promise.all(running)

    t.same(await reloading, [], 'each reload was applied or rejected as its file is')
    t.same(wellFormed.problems, [], 'what is well-formed was answered rightly throughout')
    t.same(faulty.problems, [], 'what is faulty was answered as it should be')
    t.same(origin.violations, [], 'nothing came to an origin that should not')
    const closed = quiet(
      'the exchanges to be closed',
      () => log.open === 0,
      () => log.open,
    )
    await t.resolves(closed, 'each exchange that was decided is closed')
    t.same(log.problems, [], 'the log tells of no fault, and has no close without a decision')
    const unconnected = quiet(
      'no connection to an origin',
      () => origin.open === 0,
      () => origin.open,
    )
    await t.resolves(unconnected, 'no connection to an origin is left')
    const left = (): string => descriptors(sluice.pid)
    await t.resolves(
      quiet(`the descriptors ${before}`, () => left() === before, left),
      'no descriptor is left',
    )
    const [first, last] = [median(samples, 0.1, 1 / 3), median(samples, 2 / 3, 1)]
    t.ok(last < first + GROWTH_BYTES, `${last} bytes of memory in the last third, ${first} in the first`)

    await eachOnce(clients)
    t.same(rested.problems, [], 'what is well-formed is answered rightly before and afterwards')
    t.equal(await sluice.stop(), 0)
    const skipped = Object.keys(FAULTY).filter(name => !faulty.counts.has(name))
    t.same(skipped, [], 'each fault was tried')
    t.comment(
      `${wellFormed.exchanges} well-formed and ${faulty.exchanges} others, ${log.exchanges} in the log; ` +
        `${Math.round(first / MEBIBYTE)} MiB, then ${Math.round(last / MEBIBYTE)} MiB`,
    )
  },
)
