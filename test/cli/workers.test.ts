/** `sluice run` with worker processes: what is lost when one dies, what is left at the end, and that they are one proxy. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Authority } from '../kit/peers/authority.js'
import { untilFree } from '../kit/peers/free-port.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { hasEnded } from '../kit/processes/process-group.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { needs, temporaryDirectory } from '../kit/processes/command.js'
import {
  configured,
  echoes,
  FREE,
  halted,
  haltingWorker,
  options,
  RULES,
  startWorkers,
  tunnelsOfAll,
  untilGone,
} from '../kit/processes/fleet.js'
import { installProgram, startProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

const program = await installProgram(t)

t.test('a worker that is killed takes its own connections alone, and another takes its place', async t => {
  const origin = await rawOrigin(t)
  const halting = haltingWorker(program, 3)
  const fleet = await startWorkers(t, halting, `listen: { ${FREE} }\n${RULES}`)
  const [lost = [], kept = []] = await tunnelsOfAll(t, fleet, origin)
  const [first = 0] = fleet.pids()
  // What it has not written yet is lost with it.
  const decided = () =>
    [...fleet.stdout.matchAll(/"event":"decision","id":"[0-9a-f]+-1-\d+".*"CONNECT"/g)].length
  await fleet.until('its tunnels to be in the log', () => decided() === lost.length)
  process.kill(first, 'SIGKILL')
  for (const { client } of lost) await client.untilEnd()
  const [exit] = await fleet.said(
    /"event":"worker_exited","worker":1,"worker_pid":\d+,"signal":"SIGKILL","restart_ms":100.*/,
  )
  t.match(exit, `"exchanges":${lost.length},"tunnels":${lost.length}}`)
  const closes = [
    ...fleet.stdout.matchAll(/"event":"close","id":"[0-9a-f]+-1-.*"close_reason":"worker_exited"/g),
  ]
  t.equal(closes.length, lost.length, 'each has its close')
  const next = await halted(fleet)
  for (let i = 0; i < 20; i++) t.match(await options(t, fleet.port), /^HTTP\/1\.1 200 /)
  t.equal(fleet.pids().length, 2, 'new connections are served meanwhile')
  process.kill(next, 'SIGCONT')
  await fleet.said(/"worker_started","worker":3/)
  for (const opened of kept) t.ok(await echoes(opened), 'the tunnels of the other go on')
  t.equal((await fetch(`http://127.0.0.1:${fleet.adminPort}/ready`)).status, 200)

  const pids = fleet.pids()
  t.equal(pids.length, 3)
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
  for (const { client } of kept) await client.untilEnd()
  t.ok(pids.every(hasEnded), 'no process is left')
  await t.resolves(untilFree(fleet.port))
  t.equal(fleet.stderr, '')
  const events = fleet.stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line).event)
  t.same(events.slice(-1), ['stopped'])
})

t.test('the first signal waits for what is open in a worker, the second ends all of them', async t => {
  const origin = await rawOrigin(t)
  const fleet = await startWorkers(t, program, `listen: { ${FREE} }\n${RULES}\nshutdown: { drain: 60s }`)
  const opened = await openTunnel(t, fleet, origin)
  const pids = fleet.pids()
  // A terminal sends it to all of them.
  for (const pid of pids) process.kill(pid, 'SIGINT')
  fleet.child.kill('SIGINT')
  await fleet.said(/"event":"stopping","signal":"SIGINT"/)
  t.equal((await fetch(`http://127.0.0.1:${fleet.adminPort}/ready`)).status, 503)
  t.ok(await echoes(opened), 'the tunnel is untouched')
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 130)
  await untilGone(pids)
  await opened.client.untilEnd()
})

t.test(
  'under load the log has whole lines of all, and no id twice; workers end with the supervisor',
  async t => {
    const fleet = await startWorkers(t, program, `listen: { ${FREE} }`)
    const requests = 50
    let sent = 0
    // Which worker takes a connection is nobody's choice.
    await until('both workers to answer', async () => {
      const clients = await Promise.all(Array.from({ length: 8 }, () => rawClient(t, fleet.port)))
      await Promise.all(
        clients.map(async client => {
          client.write('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(requests - 1))
          client.write('OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
          await client.untilEnd()
        }),
      )
      sent += clients.length * requests
      return ['1', '2'].every(number =>
        new RegExp(`"decision","id":"[0-9a-f]+-${number}-`).test(fleet.stdout),
      )
    })
    const closed = () => [...fleet.stdout.matchAll(/"event":"close".*\n/g)].length
    await fleet.until('all to be logged', () => closed() >= sent)
    const events = fleet.stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as { event: string; id: string })
    const ids = events.filter(({ event }) => event === 'decision').map(({ id }) => id)
    t.equal(ids.length, sent)
    t.equal(new Set(ids).size, ids.length)
    t.equal(new Set(ids.map(id => id.split('-')[0])).size, 1)

    const pids = fleet.pids()
    fleet.child.kill('SIGKILL')
    t.equal(await fleet.exited, null)
    await untilGone(pids)
    await t.resolves(untilFree(fleet.port))
  },
)

t.test('pretty lines are made of those of workers too', async t => {
  const file = await configured(t, `listen: { ${FREE} }\nlog: { format: pretty }`)
  const running = startProgram(t, [...program, '--config', file])
  const [, port = ''] = await running.said(/listening .*"proxy":\["127\.0\.0\.1:(\d+)"\]/)
  await options(t, Number(port))
  await running.said(/^\[[\d:.]+\] ALLOW OPTIONS \* +200 .* \(127\.0\.0\.1\)\n/m)
  running.child.kill('SIGTERM')
  t.equal(await running.exited, 0)
})

t.test(
  'all workers have the same ports, by TLS too, and none leads back to them',
  { skip: needs('openssl') },
  async t => {
    const { certFile, keyFile } = Authority.make(t.testdir()).issue({ san: 'IP:127.0.0.1' })
    const tls = `tls: { address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile} }`
    const fleet = await startWorkers(
      t,
      program,
      `listen: { proxy: ["127.0.0.1:0", "127.0.0.1:0"], admin: "127.0.0.1:0", ${tls} }\n${RULES}`,
    )
    const [line] = await fleet.said(/.*"event":"listening".*\n/)
    const listening = JSON.parse(line) as { proxy: string[]; admin: string; tls: string }
    const all = [...listening.proxy, listening.admin, listening.tls]
    t.equal(new Set(all).size, 4)
    const origin = await rawOrigin(t)
    // Each is asked for in both workers.
    const tunnels = await tunnelsOfAll(t, fleet, origin)
    t.ok(tunnels.every(({ length }) => length > 0))
    for (const address of all) {
      for (let i = 0; i < 8; i++) {
        const client = await rawClient(t, fleet.port)
        client.write(`CONNECT ${address} HTTP/1.1\r\nHost: a\r\n\r\n`)
        t.match(await client.untilEnd(), /^HTTP\/1\.1 403 /, address)
      }
    }
    fleet.child.kill('SIGTERM')
    for (const { client } of tunnels.flat()) client.destroy()
    t.equal(await fleet.exited, 0)
  },
)

t.test('wrong passwords count in all workers', async t => {
  const folder = await temporaryDirectory(t)
  await writeFile(
    join(folder, 'users'),
    'alice:$2y$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e\n',
  )
  const fleet = await startWorkers(
    t,
    program,
    `listen: { ${FREE} }\nclients: [{ name: a, basic: { htpasswd_file: ${join(folder, 'users')} } }]`,
  )
  const statuses: string[] = []
  for (let i = 0; i < 60; i++) {
    const client = await rawClient(t, fleet.port)
    const credentials = Buffer.from(`alice:wrong ${i}`).toString('base64')
    client.write(
      `OPTIONS * HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic ${credentials}\r\nConnection: close\r\n\r\n`,
    )
    statuses.push((await client.untilEnd()).slice(9, 12))
    // What a worker has told the supervisor by then comes before its answer to this.
    await fetch(`http://127.0.0.1:${fleet.adminPort}/status.json`)
  }
  const looked = statuses.filter(status => status === '407').length
  t.ok(looked >= 20 && looked <= 24, `${looked} were looked at`)
  t.equal(looked + statuses.filter(status => status === '429').length, 60)
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})
