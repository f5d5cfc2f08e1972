/** Limits of `sluice run` with worker processes: they hold over all of them. */
import { readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import type { Exposition } from '../kit/peers/exposition.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import {
  configured,
  FREE,
  options,
  RULES,
  scrapeUntil,
  startFleet,
  startWorkers,
  tunnelsOfAll,
  untilGone,
} from '../kit/processes/fleet.js'
import { installProgram } from '../kit/processes/program.js'

const program = await installProgram(t)

t.test(
  'the limit of tunnels applies to all workers together, and those of a dead one are released',
  async t => {
    const origin = await rawOrigin(t)
    const limit = 40
    const fleet = await startWorkers(
      t,
      program,
      `listen: { ${FREE} }\n${RULES}\nlimits: { tunnels_per_client: ${limit} }`,
    )
    /** All at once; how many came to stand. */
    const open = async (count: number): Promise<{ opened: RawPeer[]; refused: number }> => {
      const clients = await Promise.all(Array.from({ length: count }, () => rawClient(t, fleet.port)))
      for (const client of clients) client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
      const opened: RawPeer[] = []
      let refused = 0
      for (const client of clients) {
        const status = (await client.until(12)).slice(9)
        if (status === '200') opened.push(client)
        else refused += Number(status === '429')
      }
      return { opened, refused }
    }
    const first = await open(limit + 20)
    t.equal(first.opened.length, limit)
    t.equal(first.refused, 20)
    t.equal((await open(4)).refused, 4)
    await fleet.said(/"decision","id":"[0-9a-f]+-1-/)
    await fleet.said(/"decision","id":"[0-9a-f]+-2-/)

    const [pid = 0] = fleet.pids()
    process.kill(pid, 'SIGKILL')
    await untilGone([pid])
    await fleet.said(/"worker_started","worker":3/)
    const second = await open(limit)
    t.ok(second.opened.length > 0, 'what the dead one held is given back')
    t.equal(second.opened.length + second.refused, limit)
    const active = (metrics: Exposition) => metrics.value('sluice_tunnels_active') ?? 0
    const standing = await scrapeUntil(fleet, metrics => active(metrics) >= limit)
    t.equal(active(standing), limit, 'and no more than that')
    fleet.child.kill('SIGTERM')
    t.equal(await fleet.exited, 0)
  },
)

t.test('so many requests a second of one client, whichever worker it comes to', async t => {
  const fleet = await startWorkers(t, program, `listen: { ${FREE} }\nlimits: { requests_per_second: 1 }`)
  const startMs = performance.now()
  t.match(await options(t, fleet.port), /^HTTP\/1\.1 200 /)
  const others = await Promise.all(Array.from({ length: 20 }, () => options(t, fleet.port)))
  const served = others.filter(answer => answer.startsWith('HTTP/1.1 200 ')).length
  // One comes in for each second that has passed since, and none by way of the other worker.
  const seconds = (performance.now() - startMs) / 1000
  t.ok(served <= seconds, `${served} more in ${seconds} s`)
  t.equal(others.filter(answer => answer.startsWith('HTTP/1.1 429 ')).length, 20 - served)
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})

t.test('so many connections of one client, and the first request on one more is refused', async t => {
  const fleet = await startWorkers(t, program, `listen: { ${FREE} }\nlimits: { connections_per_client: 10 }`)
  const clients = await Promise.all(Array.from({ length: 16 }, () => rawClient(t, fleet.port)))
  for (const client of clients) client.write('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')
  const statuses: string[] = []
  for (const client of clients) statuses.push((await client.until(12)).slice(9))
  t.equal(statuses.filter(status => status === '200').length, 10)
  t.equal(statuses.filter(status => status === '429').length, 6)
  fleet.child.kill('SIGTERM')
  for (const client of clients) client.destroy()
  t.equal(await fleet.exited, 0)
})

t.test('a client that has used up its bytes in one worker loses its idle tunnels in the others', async t => {
  const origin = await rawOrigin(t)
  const yaml = `listen: { ${FREE} }\n${RULES}\nlimits: { bytes_per_hour: 10KiB }`
  const fleet = await startWorkers(t, program, yaml)
  const tunnels = await tunnelsOfAll(t, fleet, origin)
  tunnels[0]?.[0]?.client.write('x'.repeat(10 * 1024))
  for (const { client } of tunnels.flat()) await client.outcome()
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
  t.equal([...fleet.stdout.matchAll(/"close_reason":"bytes"/g)].length, tunnels.flat().length)
})

t.test('limits of an entry of clients hold over all workers, and a reload changes them', async t => {
  const origin = await rawOrigin(t)
  const yaml = (limits: string) => `listen: { ${FREE} }
${RULES}
limits: { tunnels_per_client: 50 }
clients: [{ name: ci, cidr: ["127.0.0.0/8"], limits: { ${limits} } }]`
  const file = await configured(t, yaml('tunnels_per_client: 8, tunnels: 6'))
  const fleet = await startFleet(t, program, file)
  const open = async (count: number): Promise<string[]> => {
    const clients = await Promise.all(Array.from({ length: count }, () => rawClient(t, fleet.port)))
    for (const client of clients) client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
    const answers: string[] = []
    for (const client of clients) answers.push((await client.until(12)).slice(9))
    return answers
  }
  const first = await open(12)
  t.equal(first.filter(status => status === '200').length, 6)
  t.equal(first.filter(status => status === '429').length, 6)
  await fleet.said(/"reason":"limit_client_tunnels"[^\n]*clients\[ci\]\.limits\.tunnels allows \(6\)/)
  const before = await readFile(file, 'utf8')
  await writeFile(file, before.replace(', tunnels: 6', ''))
  fleet.child.kill('SIGHUP')
  await fleet.said(/"event":"config_reloaded"/)
  const second = await open(6)
  t.equal(second.filter(status => status === '200').length, 2, 'those that are open stay counted')
  await fleet.said(
    /"reason":"limit_tunnels_per_client"[^\n]*clients\[ci\]\.limits\.tunnels_per_client allows \(8\)/,
  )
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})
