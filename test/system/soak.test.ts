/**
 * The program with four workers under a steady load, for SOAK_SECONDS (default 120; 40 with CI=true). One worker is killed
 * every two seconds, the configuration is reloaded ten times, and the program is drained at the end.
 *
 * The connections of a killed worker are lost, but no others may be. So for each connection it is known which worker has it.
 */
import { existsSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { parseExposition } from '../kit/peers/exposition.js'
import { untilFree } from '../kit/peers/free-port.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { needsBuild } from './program.js'
import { type Failure, SoakFleet } from './soak-fleet.js'
import { type SoakOrigin, soakOrigin } from './soak-origin.js'
import { type Result, SoakRequests } from './soak-requests.js'
import { SoakTunnels } from './soak-tunnels.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'

const SECONDS = Number(process.env['SOAK_SECONDS'] ?? (process.env['CI'] === 'true' ? 40 : 120))
const WORKERS = 4
const RELOADS = 10
const KILL_MS = 2000
const REQUESTS_PER_SECOND = 200
const TUNNELS = 200
const ECHO_MS = 1000
/** Requests of each kind that are in progress when the program is stopped. */
const HELD = 12

/** Lines above level info. Whether the machine has enough descriptors for the limits is not tested here. */
const EXPECTED = new Set(['worker_exited', 'few_file_descriptors'])

const skip = process.platform === 'linux' ? needsBuild() : 'reads /proc, which Linux alone has'

interface Place {
  readonly file: string
  readonly unixPath: string
  readonly origin: SoakOrigin
}

/** Each version has another rule, which the load does not need; every other version watches its file. */
function configuration({ unixPath, origin }: Place, version: number): string {
  return `version: 1
workers: ${WORKERS}
listen: { proxy: ["127.0.0.1:0", "unix:${unixPath}"], admin: "127.0.0.1:0" }
clients: [{ name: near, cidr: ["127.0.0.0/8"] }, { name: local, unix: true }]
rules:
  soak: { hosts: ["127.0.0.1"], ports: [${origin.port}, ${origin.echoPort}], addresses: ["127.0.0.0/8"] }
  other-${version}: { hosts: ["host-${version}.test"], ports: [443] }
reload: { watch: ${isWatched(version)} }
# Room for those of a killed worker that are opened again before its end is known, and for no more.
limits: { connections: 10000, connections_per_client: 10000, tunnels: ${2 * TUNNELS + 10}, tunnels_per_client: ${2 * TUNNELS + 10} }
shutdown: { drain: 60s }
`
}

function isWatched(version: number): boolean {
  return version % 2 === 1
}

function replace(place: Place, version: number): void {
  writeFileSync(`${place.file}.new`, configuration(place, version))
  renameSync(`${place.file}.new`, place.file)
}

/** Kills the oldest worker repeatedly, each time after the end of the last one is known; one always keeps serving. */
async function killWorkers(fleet: SoakFleet, port: number, signal: AbortSignal): Promise<void> {
  while (await paused(KILL_MS, signal)) {
    const [oldest, ...others] = fleet.serving
    if (oldest !== undefined && others.length > 0) await fleet.kill(oldest, port)
  }
}

/** @returns false if the signal aborted before the time was over */
async function paused(ms: number, signal: AbortSignal): Promise<boolean> {
  return delay(ms, true, { signal }).catch(() => false)
}

/** Reloads by SIGHUP and by a file change in turn. @returns the hashes of all configurations */
async function reload(t: Test, fleet: SoakFleet, place: Place): Promise<Set<unknown>> {
  const { config_hash: first } = await fleet.event(['listening'])
  const hashes = new Set([first])
  for (let version = 1; version <= RELOADS; version++) {
    await delay((SECONDS * 1000) / (RELOADS + 1))
    replace(place, version)
    if (!isWatched(version - 1)) fleet.signal('SIGHUP')
    const reloaded = await fleet.event(['config_reloaded', 'config_rejected'], version)
    t.match(reloaded, { event: 'config_reloaded', changed: ['rules', 'reload'], closed_tunnels: 0 })
    hashes.add(reloaded['config_hash'])
  }
  return hashes
}

function describe({ what, clientPort, connectedAt, failedAt }: Failure): string {
  const times = [connectedAt, failedAt].map(Math.round).join(' to ')
  return `${what} (from port ${clientPort}, ${times} ms)`
}

/** Requests that the origin has received, and that are incomplete or have no response yet. */
async function holdRequests(requests: SoakRequests, origin: SoakOrigin, rest: Promise<Buffer>) {
  const results: Promise<Result>[] = []
  for (let i = 0; i < HELD; i++) {
    const paths = ['get', 'kept', 'post'].map(kind => `/held/${kind}/${i}`)
    const [get = '', kept = '', post = ''] = paths
    results.push(requests.send({ path: get, method: 'GET', kept: false }))
    results.push(requests.send({ path: kept, method: 'GET', kept: true }))
    const content = [Buffer.alloc(1000), rest]
    results.push(requests.send({ path: post, method: 'POST', kept: false, content }))
    for (const path of paths) await origin.untilSeen(path)
  }
  return results
}

t.test(`${SECONDS} seconds`, { skip }, async t => {
  const origin = await soakOrigin(t)
  const directory = await temporaryDirectory(t)
  const unixPath = join(directory, 'proxy.sock')
  const place: Place = { file: join(directory, 'sluice.yaml'), unixPath, origin }
  replace(place, 0)
  const fleet = new SoakFleet(t, place.file)
  const { proxy, admin } = await fleet.event(['listening'])
  const proxyPort = Number((proxy as string[])[0]?.split(':').at(-1))
  const requests = new SoakRequests(proxyPort, origin.port)
  const tunnels = new SoakTunnels(proxyPort, origin.echoPort)
  t.teardown(() => {
    requests.close()
    tunnels.destroy()
  })

  const handedOut = fleet.isAcceptedFor(proxyPort)
  tunnels.start(TUNNELS, ECHO_MS)
  requests.start(REQUESTS_PER_SECOND)
  const over = new AbortController()
  const killed = killWorkers(fleet, proxyPort, over.signal)
  const hashes = await reload(t, fleet, place)
  await delay((SECONDS * 1000) / (RELOADS + 1))
  over.abort()
  await killed
  await fleet.untilServing(WORKERS)
  await tunnels.quiet()

  const report = await (await fetch(`http://${admin}/metrics`)).text()
  const metrics = parseExposition(report, 'text')
  t.same(metrics.counted('sluice_config_reloads_total'), {
    'sluice_config_reloads_total{result="applied"}': RELOADS,
  })
  t.equal(hashes.size, RELOADS + 1, 'each was another one')
  t.equal(metrics.value('sluice_tunnels_active'), TUNNELS)

  // From here on no connection may be lost, unless a request had begun on it.
  const lost = tunnels.failures.length
  let give: (rest: Buffer) => void = () => {}
  const held = await holdRequests(
    requests,
    origin,
    new Promise(resolve => {
      give = resolve
    }),
  )
  const [before, stoppedAt] = [requests.unanswered.length, performance.now()]
  fleet.signal('SIGTERM')
  await fleet.event(['stopping'])
  const refused = () => requests.unanswered.slice(before).some(({ what }) => what.includes('ECONNREFUSED'))
  await until('a request to be refused', refused, { everyMs: OTHER_PROCESS_MS })
  requests.stop()
  await tunnels.echo()
  t.equal(tunnels.failures.length, lost, 'a tunnel goes on while the program drains')
  give(Buffer.alloc(1000))
  origin.release()
  for (const result of await Promise.all(held)) t.match(result, { answer: { closes: true } })
  await requests.settled()
  await tunnels.close()
  t.equal(await fleet.exited, 0)

  // After the stop, listeners refuse connections, and either side may close a connection without a request.
  const begun = requests.unanswered.filter(
    ({ failedAt, path }) => failedAt < stoppedAt || origin.saw(path ?? ''),
  )
  const failures = [...tunnels.failures, ...requests.failures, ...begun]
  const excuses = failures.map(failure => fleet.excuse(failure))
  t.same(
    failures.filter((_, index) => excuses[index] === undefined).map(describe),
    [],
    'nothing is lost with a worker that was not killed',
  )
  const onTheWay = excuses.filter(excuse => excuse === 'on its way').length
  if (handedOut) t.ok(onTheWay <= fleet.kills.length, `${onTheWay} were on their way to a worker`)
  const ended = requests.answered + requests.failures.length + requests.unanswered.length
  t.equal(ended, requests.sent)
  t.ok(requests.answered > requests.sent / 2, `${requests.answered} of ${requests.sent}`)
  t.ok(tunnels.echoed > TUNNELS)
  t.same(fleet.broken, [], 'the log has whole lines')
  t.same(fleet.odd, [], 'no exchange of another worker was cut')
  t.same(
    fleet.events.filter(({ level, event }) => level !== 'info' && !EXPECTED.has(String(event))),
    [],
  )
  t.same(
    new Set(
      fleet.events.flatMap(({ event, worker, signal, error }) =>
        event === 'worker_exited' ? [{ worker, signal, error }] : [],
      ),
    ),
    new Set(fleet.kills.map(({ number }) => ({ worker: number, signal: 'SIGKILL', error: undefined }))),
    'no worker ended but those that were killed',
  )
  t.equal(fleet.stderr, '')
  t.same(fleet.processes(), [], 'no process is left')
  t.notOk(existsSync(unixPath), 'no socket file is left')
  for (const port of [proxyPort, Number(String(admin).split(':').at(-1))]) {
    await t.resolves(untilFree(port), `port ${port} is free`)
  }
  t.comment(
    `${requests.sent} requests, ${tunnels.echoed} echoes, ${fleet.kills.length} kills: ${failures.length - lost} requests and ${lost} tunnels lost with them, ${onTheWay} of them on their way`,
  )
})
