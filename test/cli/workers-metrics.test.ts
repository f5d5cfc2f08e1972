/** `/metrics` of `sluice run` with worker processes: one proxy's numbers, whichever worker has counted them. */
import t, { type Test } from 'tap'
import type { Exposition } from '../kit/peers/exposition.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import {
  type Fleet,
  FREE,
  options,
  RULES,
  scrapeUntil,
  startWorkers,
  tunnelsOfAll,
} from '../kit/processes/fleet.js'
import { installProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

const program = await installProgram(t)

/** Once so many requests were counted; never more. */
async function counted(t: Test, fleet: Fleet, requests: number) {
  const sum = (metrics: Exposition) => metrics.sum('sluice_requests_total', 'method="OPTIONS"')
  const metrics = await scrapeUntil(fleet, metrics => sum(metrics) >= requests)
  t.equal(sum(metrics), requests)
  return metrics
}

t.test('numbers are those of all workers, none falls when one dies, and Host may be a name', async t => {
  const origin = await rawOrigin(t)
  const fleet = await startWorkers(t, program, `listen: { ${FREE}, admin_hosts: [sluice.test] }\n${RULES}`)
  const tunnels = await tunnelsOfAll(t, fleet, origin)
  for (let i = 0; i < 10; i++) await options(t, fleet.port)
  // Counted when they are over.
  await fleet.said(/(?:"event":"close"(?:.|\n)*){10}/)
  const all = tunnels.flat().length
  await scrapeUntil(fleet, metrics => metrics.value('sluice_tunnels_active') === all)
  const before = await counted(t, fleet, 10)
  t.equal(before.value('sluice_tunnels_active'), all)
  t.equal(before.sum('sluice_build_info'), 1)
  t.equal(before.sum('sluice_config_info'), 1)
  t.equal(before.value('sluice_config_reloads_total{result="applied"}'), 0)
  t.equal(before.value('sluice_worker_restarts_total'), 0)
  t.equal(before.value('sluice_log_lines_lost_total'), 0)
  const memory = before.value('process_resident_memory_bytes') ?? 0
  t.ok(memory > 3 * 20_000_000, `the memory of three processes: ${memory}`)

  const [first = 0] = fleet.pids()
  process.kill(first, 'SIGKILL')
  await fleet.said(/"worker_started","worker":3/)
  const after = await scrapeUntil(fleet, () => true)
  t.equal(after.sum('sluice_requests_total', 'method="OPTIONS"'), 10)
  t.equal(after.value('sluice_tunnels_active'), tunnels[1]?.length)
  t.equal(after.value('sluice_worker_restarts_total'), 1)
  t.ok((after.value('process_cpu_seconds_total') ?? 0) >= (before.value('process_cpu_seconds_total') ?? 0))
  await options(t, fleet.port)
  await fleet.said(/(?:"event":"close"(?:.|\n)*){11}/)
  await counted(t, fleet, 11)
  const status = await until('the status of both workers', async () => {
    const answer = await fetch(`http://127.0.0.1:${fleet.adminPort}/status.json`)
    const document = (await answer.json()) as { workers: unknown[] }
    return document.workers.length >= 2 && document
  })
  const pids = fleet.pids()
  t.match(status, {
    workers: [
      { worker: 2, pid: pids[1] },
      { worker: 3, pid: pids[2] },
    ],
  })

  for (const [host, status] of [
    ['sluice.test', 200],
    ['other.test', 403],
  ] as const) {
    const client = await rawClient(t, fleet.adminPort)
    client.write(`GET /ready HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    t.match(
      await client.untilEnd(),
      new RegExp(`^HTTP/1\\.1 ${status} `),
      `${host}, of listen.admin_hosts or not`,
    )
  }
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})
