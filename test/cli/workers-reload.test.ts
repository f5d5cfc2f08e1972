/** SIGHUP to `sluice run` with worker processes: a configuration is that of all, and tunnels go on that it allows. */
import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import {
  configured,
  echoes,
  FREE,
  type Fleet,
  RULES,
  scrapeUntil,
  startFleet,
  tunnelsOfAll,
  untilGone,
} from '../kit/processes/fleet.js'
import { installProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

const program = await installProgram(t)

const HEAD = `version: 1\nworkers: 2\nshutdown: { drain: 0s }\nlisten: { ${FREE} }\nreload: { watch: false }\n`

/** The `count`th reload that took effect. */
async function reloaded(fleet: Fleet, count: number): Promise<Record<string, unknown>> {
  const line = '\\{[^\\n]*"event":"config_reloaded"[^\\n]*\\}\\n'
  const [text] = await fleet.said(new RegExp(`(?:${line}(?:.|\\n)*?){${count - 1}}${line}`))
  return JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>
}

t.test('ten reloads cut no tunnel, and one that denies their host closes those of both workers', async t => {
  const origin = await rawOrigin(t)
  const file = await configured(t, '')
  await writeFile(file, `${HEAD}${RULES}\n`)
  const fleet = await startFleet(t, program, file)
  const tunnels = await tunnelsOfAll(t, fleet, origin)
  t.ok(tunnels.every(({ length }) => length > 0))
  for (let count = 1; count <= 10; count++) {
    await writeFile(file, `${HEAD}${RULES}\nvia: a${count}\n`)
    fleet.child.kill('SIGHUP')
    t.match(await reloaded(fleet, count), { changed: ['via'], closed_tunnels: 0 })
  }
  for (const tunnel of tunnels.flat()) t.ok(await echoes(tunnel))
  const all = tunnels.flat().length
  const between = await scrapeUntil(fleet, metrics => metrics.value('sluice_tunnels_active') === all)
  t.equal(between.value('sluice_config_reloads_total{result="applied"}'), 10)

  await writeFile(file, `${HEAD}rules: {}\nvia: a10\n`)
  fleet.child.kill('SIGHUP')
  const last = await reloaded(fleet, 11)
  t.match(last, { changed: ['rules'], closed_tunnels: tunnels.flat().length })
  for (const { client } of tunnels.flat()) await client.untilEnd()
  const after = await scrapeUntil(fleet, metrics => metrics.value('sluice_tunnels_active') === 0)
  t.equal(after.value('sluice_config_reloads_total{result="applied"}'), 11)

  const [first = 0] = fleet.pids()
  process.kill(first, 'SIGKILL')
  await fleet.said(/"worker_started","worker":3/)
  const hash = String(last['config_hash'])
  // By those that stayed, and by the one that came later.
  const decided = (worker: number) =>
    new RegExp(`"decision","id":"[0-9a-f]+-${worker}-[^\\n]*"config_hash":"${hash}"`).test(fleet.stdout)
  await until('both workers to refuse it', async () => {
    const client = await rawClient(t, fleet.port)
    client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: a\r\n\r\n`)
    t.match(await client.untilEnd(), /^HTTP\/1\.1 403 /)
    return decided(2) && decided(3)
  })
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
  await untilGone(fleet.pids())
})

t.test('a file that is wrong changes nothing in any of them', async t => {
  const origin = await rawOrigin(t)
  const file = await configured(t, '')
  await writeFile(file, `${HEAD}${RULES}\n`)
  const fleet = await startFleet(t, program, file)
  const tunnels = await tunnelsOfAll(t, fleet, origin)
  await writeFile(file, `${HEAD}rules: 7\n`)
  fleet.child.kill('SIGHUP')
  await fleet.said(/"event":"config_rejected"/)
  for (const tunnel of tunnels.flat()) t.ok(await echoes(tunnel))
  for (let i = 0; i < 8; i++) t.ok(await echoes(await openTunnel(t, fleet, origin)))
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})
