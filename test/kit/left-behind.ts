/**
 * What a test leaves behind: timers, sockets, servers, child processes, watchers and descriptors that did not exist
 * before it.
 */
import { createHook } from 'node:async_hooks'
import { readdirSync, readlinkSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { setImmediate } from 'node:timers'
import { setTimeout } from 'node:timers/promises'
import type { TAP, Test } from 'tap'

/** The turns of the event loop in which something must have ended: usually it takes fewer than ten. */
const TURNS = 100
/** The time for what depends on another thread or process. */
const DEADLINE_MS = 3000
const PAUSE_MS = 5

/** If set, the report says where each remaining timer and handle was created. */
const STACKS = 'TEST_STACKS'

/** Resources that keep the process alive for one turn at most. */
const PASSING = new Set(['Immediate', 'CloseReq'])
/** Descriptors of the event loop and the runtime, which are created on first use and kept: targets in /proc/self/fd. */
const RUNTIME = /^anon_inode:|^\/dev\/(?:null|u?random)$|^\/proc\//

export interface Holdings {
  /** How many resources of each kind keep the process alive, such as `Timeout` or `TCPSocketWrap`. */
  readonly resources: ReadonlyMap<string, number>
  /** The target of each descriptor, by number. */
  readonly descriptors: ReadonlyMap<number, string>
  readonly handles: ReadonlySet<object>
}

export function holdings(): Holdings {
  const resources = process.getActiveResourcesInfo().filter(kind => !PASSING.has(kind))
  return { resources: counted(resources), descriptors: openDescriptors(), handles: activeHandles() }
}

/**
 * Waits for whatever is ending.
 * @returns a line for each resource that did not exist before
 */
export async function leftBehind(before: Holdings, deadlineMs = DEADLINE_MS): Promise<readonly string[]> {
  for (let turn = 0; turn < TURNS; turn++) {
    if (!hasMore(before, holdings())) return []
    await new Promise<void>(resolve => setImmediate(resolve))
  }
  const deadline = performance.now() + deadlineMs
  while (performance.now() < deadline) {
    // A timer that has fired is not left behind.
    await setTimeout(PAUSE_MS)
    if (!hasMore(before, holdings())) return []
  }
  return difference(before, holdings())
}

/** Tests of one parent that run at the same time: what they leave is attributed only when all of them have ended. */
interface Running {
  readonly before: Holdings
  readonly names: string[]
  active: number
}

/** From now on, every test and subtest of the process fails if it leaves something behind. */
export function checkEach(root: TAP, deadlineMs = DEADLINE_MS): void {
  const runningIn = new WeakMap<object, Running>()
  root.beforeEach((t: Test) => {
    const parent = t.parent ?? root
    const running = runningIn.get(parent) ?? { before: holdings(), names: [], active: 0 }
    running.names.push(t.name)
    running.active += 1
    runningIn.set(parent, running)
  })
  root.afterEach(async (t: Test) => {
    const parent = t.parent ?? root
    const running = runningIn.get(parent)
    if (running === undefined || --running.active > 0) return
    runningIn.delete(parent)
    const left = await leftBehind(running.before, deadlineMs)
    // The test has ended; an error thrown here would end the surrounding one.
    if (left.length > 0) parent.fail(`left behind by "${running.names.join('", "')}"`, { left, at: null })
  })
}

function hasMore(before: Holdings, after: Holdings): boolean {
  return (
    more(before.resources, after.resources).length > 0 ||
    more(kindsOf(before.descriptors), kindsOf(after.descriptors)).length > 0
  )
}

function difference(before: Holdings, after: Holdings): readonly string[] {
  const resources = more(before.resources, after.resources)
  const kinds = new Set(more(kindsOf(before.descriptors), kindsOf(after.descriptors)).map(([kind]) => kind))
  const descriptors = [...after.descriptors].filter(
    ([number, target]) => before.descriptors.get(number) !== target && kinds.has(kindOf(target)),
  )
  const handles = [...after.handles].filter(handle => !before.handles.has(handle))
  return [
    ...resources.map(([kind, count]) => `${count} ${kind}`),
    ...descriptors.map(([number, target]) => `descriptor ${number}: ${target}`),
    ...handles.map(describe),
    ...madeAt(resources.map(([kind]) => kind)),
  ]
}

/** The kinds of which there are more than before, and how many more. */
function more(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): [string, number][] {
  return [...after].flatMap(([kind, count]) => {
    const added = count - (before.get(kind) ?? 0)
    return added > 0 ? [[kind, added]] : []
  })
}

function counted(kinds: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** `socket` and `pipe` without their numbers: one that has replaced another is not an additional one. */
const kindOf = (target: string): string => target.replace(/:\[\d+\]$/, '')
const kindsOf = (descriptors: Holdings['descriptors']): Map<string, number> =>
  counted([...descriptors.values()].map(kindOf))

/** Empty without /proc. */
function openDescriptors(): Map<number, string> {
  const open = new Map<number, string>()
  for (const name of numbersOf('/proc/self/fd')) {
    try {
      const target = readlinkSync(`/proc/self/fd/${name}`)
      if (!RUNTIME.test(target)) open.set(Number(name), target)
    } catch {
      // The descriptor with which the folder was read.
    }
  }
  return open
}

function numbersOf(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** The resources that keep the process alive; Node has no documented API for them, so none without this one. */
function activeHandles(): Set<object> {
  const { _getActiveHandles: read } = process as unknown as { _getActiveHandles?: () => object[] }
  return new Set(read?.call(process) ?? [])
}

interface Handle {
  readonly localPort?: number
  readonly remoteAddress?: string
  readonly remotePort?: number
  readonly pid?: number
  readonly spawnargs?: readonly string[]
  readonly address?: () => unknown
}

/** A description of a handle: its kind and its peer. */
function describe(handle: object): string {
  const { localPort, remoteAddress, remotePort, pid, spawnargs, address } = handle as Handle
  const name = handle.constructor.name
  if (spawnargs !== undefined) return `${name}: process ${pid}, ${spawnargs.join(' ').slice(0, 200)}`
  if (remotePort !== undefined) return `${name}: port ${localPort} to ${remoteAddress}:${remotePort}`
  if (name !== 'Server') return localPort === undefined ? name : `${name}: port ${localPort}`
  return `${name}: ${JSON.stringify(address?.call(handle))}`
}

interface Made {
  readonly kind: string
  readonly stack: string
}

const made = new Map<number, Made>()

if (process.env[STACKS] !== undefined) {
  createHook({
    init(id, type) {
      const kind = type.replace(/WRAP$/, 'Wrap')
      if (type !== 'PROMISE' && type !== 'Immediate' && type !== 'TickObject')
        made.set(id, { kind, stack: new Error(kind).stack ?? '' })
    },
    destroy(id) {
      made.delete(id)
    },
  }).enable()
}

function madeAt(kinds: readonly string[]): string[] {
  if (process.env[STACKS] === undefined) return [`to see where each was made, set ${STACKS}=1`]
  const wanted = new Set(kinds.map(kind => kind.toLowerCase()))
  return [...made.values()].flatMap(({ kind, stack }) => {
    if (!wanted.has(kind.toLowerCase())) return []
    const frames = stack.split('\n').slice(2)
    return [`${kind} made\n${frames.filter(line => !line.includes('node:internal')).join('\n')}`]
  })
}
