/** A worker process of `sluice run` that stands still, and does not end by itself. */
import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { hasEnded } from '../kit/processes/process-group.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import {
  configured,
  FREE,
  halted,
  haltingWorker,
  RULES,
  startFleet,
  tunnelsOfAll,
} from '../kit/processes/fleet.js'
import { installProgram, startProgram } from '../kit/processes/program.js'

const program = await installProgram(t)
/** It takes 15 to 20 seconds until nobody believes in it any more. */
const PATIENCE = { timeout: 59_000 }

t.test('it is ended and replaced, and a reload reaches the others before that', PATIENCE, async t => {
  const origin = await rawOrigin(t)
  const file = await configured(t, '')
  const head = `version: 1\nworkers: 2\nshutdown: { drain: 0s }\nlisten: { ${FREE} }\n`
  await writeFile(file, `${head}${RULES}\n`)
  const fleet = await startFleet(t, program, file)
  const [lost = [], cut = []] = await tunnelsOfAll(t, fleet, origin)
  const [first = 0] = fleet.pids()
  process.kill(first, 'SIGSTOP')
  const status = await (await fetch(`http://127.0.0.1:${fleet.adminPort}/status.json`)).json()
  t.match(status, { workers: [{ worker: 2 }] })
  await writeFile(file, `${head}rules: {}\n`)
  for (const { client } of cut) await client.outcome()
  await fleet.said(/"close_reason":"policy"/)
  await fleet.said(/"event":"config_reloaded"/)
  t.notMatch(fleet.stdout, '"worker_exited"')
  for (const { client } of lost) await client.outcome()
  await fleet.said(
    /"worker_exited","worker":1,"worker_pid":\d+,"signal":"SIGKILL","error":"it did not answer for 15 s"/,
  )
  await fleet.said(/"worker_started","worker":3/)
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})

t.test('a stop does not wait for one that never came to serve', async t => {
  const file = await configured(t, `listen: { ${FREE} }`)
  const running = startProgram(t, [...haltingWorker(program, 1), '--config', file])
  const worker = await halted(running)
  running.child.kill('SIGTERM')
  t.equal(await running.exited, 0)
  t.ok(hasEnded(worker))
  t.equal(running.stdout + running.stderr, '')
})
