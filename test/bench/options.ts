/** The command line of the benchmark. */
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

/**
 * `passthrough` and `store` are compared with nginx, and `cache` with squid and nginx. Three cases have no comparison:
 * `policy` measures the time of one decision, `cache-store` the time and the hit ratio of the memory store of the cache,
 * `cache-entries` hits with ten to a million stored responses. `latency` sends at half the rate that squid reached in
 * `forward`.
 */
export const CASES = [
  'forward',
  'latency',
  'quiet',
  'bodies',
  'post',
  'connections',
  'tls',
  'passthrough',
  'connect',
  'tunnel',
  'memory',
  'idle',
  'store',
  'cache',
  'policy',
  'cache-store',
  'cache-entries',
] as const
export type Case = (typeof CASES)[number]

export const SUBJECTS = ['direct', 'sluice', 'sluice-other', 'squid', 'tinyproxy', 'nginx'] as const
/** What is measured: a proxy, a file server, or the load generator connected directly to the origin. */
export type SubjectName = (typeof SUBJECTS)[number]

/** Durations in milliseconds. */
export interface Plan {
  readonly rounds: number
  readonly warmMs: number
  readonly measureMs: number
  readonly tunnelMs: number
  /** The time limit for repeating measurements that were disturbed by other load. */
  readonly retryMs: number
}

export interface Options {
  readonly cases: readonly Case[]
  readonly subjects: readonly SubjectName[]
  readonly plan: Plan
  readonly json: string | undefined
  readonly profile: boolean
  /** The built program that is measured as Sluice. */
  readonly program: string
  /** The Node binary that runs it. */
  readonly node: string
  /** Another Node binary for the same program: the subject `sluice-other`. */
  readonly otherNode: string | undefined
}

/** The root of the repository: this file is compiled to .build/test/bench, the built program is in dist. */
const ROOT = resolve(import.meta.dirname, '../../..')

const FULL: Plan = { rounds: 3, warmMs: 500, measureMs: 2000, tunnelMs: 1000, retryMs: 30_000 }
const QUICK: Plan = { rounds: 1, warmMs: 500, measureMs: 1500, tunnelMs: 800, retryMs: 10_000 }

export const USAGE = `usage: npm run bench -- [options]
  --quick              take one short round only
  --only CASES         run some of ${CASES.join(',')}
  --proxies NAMES      measure some of ${SUBJECTS.join(',')}
  --json FILE          write every sample to FILE
  --profile            run only Sluice, with --cpu-prof, and print where the time goes
  --program FILE       measure another build of Sluice instead of dist/bin.js
  --node FILE          run it with that Node instead of this one
  --other-node FILE    also measure it with a second Node, as the proxy sluice-other
`

/** @throws Error with one line for the user */
export function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      proxies: { type: 'string' },
      json: { type: 'string' },
      profile: { type: 'boolean', default: false },
      program: { type: 'string' },
      node: { type: 'string', default: process.execPath },
      'other-node': { type: 'string' },
    },
  })
  return {
    cases: chosen(values.only, CASES),
    subjects: chosen(values.proxies, SUBJECTS),
    plan: values.quick ? QUICK : FULL,
    json: values.json,
    profile: values.profile,
    program: resolve(values.program ?? join(ROOT, 'dist/bin.js')),
    node: values.node,
    otherNode: values['other-node'],
  }
}

function chosen<T extends string>(list: string | undefined, all: readonly T[]): readonly T[] {
  if (list === undefined) return all
  const asked = list.split(',')
  const unknown = asked.find(name => !all.some(known => known === name))
  if (unknown !== undefined) throw new Error(`"${unknown}" is not one of ${all.join(', ')}`)
  return all.filter(name => asked.includes(name))
}
