/** What is left of `sluice run` with worker processes when it has ended, in whatever way: nothing. */
import { existsSync } from 'node:fs'
import t, { type Test } from 'tap'
import { collector } from '../kit/peers/collector.js'
import { untilFree } from '../kit/peers/free-port.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { hasEnded } from '../kit/processes/process-group.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { socketPath, unixClient } from '../kit/peers/unix-socket.js'
import {
  ask,
  childrenOf,
  configured,
  type Fleet,
  FREE,
  options,
  requestsOf,
  RULES,
  startFleet,
  startWorkers,
  untilGone,
} from '../kit/processes/fleet.js'
import { installCopy, installProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

const program = await installProgram(t)

t.test('spans of all workers are sent before they end', async t => {
  const collecting = await collector(t)
  const fleet = await startWorkers(
    t,
    // With --preserve-symlinks-main, Node 20 loads a package behind a link wrongly in a worker of node:cluster.
    await installCopy(t),
    `listen: { ${FREE} }\ntracing: { otlp: "${collecting.url}", sample: 1 }`,
  )
  // By themselves they are sent only after some seconds.
  let sent = 0
  await until('both workers to answer', async () => {
    t.match(await options(t, fleet.port), /^HTTP\/1\.1 200 /)
    sent += 1
    return [0, 1].every(index => (requestsOf(fleet)[index] ?? 0) > 0)
  })
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
  t.equal(collecting.spans.filter(({ kind }) => kind === 'server').length, sent)
  t.ok(collecting.requests.length >= 2, 'each has sent its own')
  t.ok(fleet.pids().every(hasEnded))
})

/** Where all of them listen, one after the other: what one leaves would be in the way of the next. */
const PATHS = [await socketPath(t), await socketPath(t, 'admin.sock')] as const

function filesLeft(): string[] {
  return PATHS.filter(path => existsSync(path))
}

interface Standing extends Fleet {
  /** Process ids of all workers. */
  readonly workers: readonly number[]
  /** Sees to it that nothing is left, but files of sockets where nobody could remove them: those nobody listens on. */
  isGone(t: Test, files: 'removed' | 'stale'): Promise<void>
}

/** With a tunnel that stands, and a stop that would wait for it. */
async function standing(t: Test, drain: string): Promise<Standing> {
  const file = await configured(
    t,
    `listen: { proxy: ["127.0.0.1:0", "unix:${PATHS[0]}"], admin: "unix:${PATHS[1]}" }\n${RULES}\nclients: [{ name: near, cidr: ["127.0.0.0/8"] }, { name: local, unix: true }]\nshutdown: { drain: ${drain} }`,
  )
  const fleet = await startFleet(t, program, file)
  const origin = await rawOrigin(t)
  const { client } = await openTunnel(t, fleet, origin)
  t.match(await ask(await unixClient(t, PATHS[0])), /^HTTP\/1\.1 200 /)
  const workers = childrenOf(fleet.child.pid ?? 0)
  t.same(workers.length, 2)
  return Object.assign(fleet, {
    workers,
    isGone: async (t: Test, files: 'removed' | 'stale') => {
      await client.untilEnd()
      await untilGone([...workers, ...fleet.pids()])
      await t.resolves(untilFree(fleet.port))
      const left = filesLeft()
      if (files === 'removed') t.same(left, [])
      for (const path of left) await t.rejects(unixClient(t, path), { code: 'ECONNREFUSED' })
    },
  })
}

interface End {
  readonly name: string
  readonly drain: string
  readonly end: (fleet: Standing) => Promise<void>
  readonly code: number | null
}

/** In an order in which all but two are themselves the start behind another that has to end well. */
const ENDS: readonly End[] = [
  {
    name: 'two SIGTERM: at once',
    drain: '60s',
    end: async ({ child, said }) => {
      child.kill('SIGTERM')
      await said(/"event":"stopping"/)
      child.kill('SIGTERM')
    },
    code: 130,
  },
  {
    name: 'SIGKILL of a worker, and SIGTERM before another takes its place',
    drain: '0s',
    end: async ({ child, said, workers: [first = 0] }) => {
      process.kill(first, 'SIGKILL')
      await said(/"worker_exited","worker":1/)
      child.kill('SIGTERM')
    },
    code: 0,
  },
  {
    name: 'SIGKILL of a worker, and SIGTERM after another has taken its place',
    drain: '0s',
    end: async ({ child, said, workers: [first = 0] }) => {
      process.kill(first, 'SIGKILL')
      await said(/"worker_started","worker":3/)
      child.kill('SIGTERM')
    },
    code: 0,
  },
  {
    name: 'SIGTERM: after the drain',
    drain: '0s',
    end: async ({ child }) => {
      child.kill('SIGTERM')
    },
    code: 0,
  },
  {
    name: 'SIGKILL of the supervisor: the workers end',
    drain: '60s',
    end: async ({ child }) => {
      child.kill('SIGKILL')
    },
    code: null,
  },
]

for (const [index, { name, drain, end, code }] of ENDS.entries()) {
  t.test(index === 0 ? name : `it can be started again; ${name}`, async t => {
    const fleet = await standing(t, drain)
    await end(fleet)
    t.equal(await fleet.exited, code)
    // What the supervisor ends by itself it has seen the end of.
    if (code === 0) t.ok([...fleet.workers, ...fleet.pids()].every(hasEnded), 'at once')
    await fleet.isGone(t, code === 0 ? 'removed' : 'stale')
  })

  // The next start says the same of this end when it ends well itself.
  if (ENDS[index + 1]?.code === 0) continue
  t.test(`it can be started again behind that, and leaves nothing (${name})`, async t => {
    const fleet = await standing(t, '0s')
    fleet.child.kill('SIGTERM')
    t.equal(await fleet.exited, 0)
    await fleet.isGone(t, 'removed')
  })
}
