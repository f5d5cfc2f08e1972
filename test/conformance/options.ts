/** The command line of the caching tests. */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Store, STORES, type Way, WAYS } from './ways.js'

export interface Options {
  readonly ways: readonly Way[]
  readonly store: Store
  /** The id of a single test to run. */
  readonly only: string | undefined
  /** `http://host:port` of a cache to test instead of Sluice. */
  readonly peer: string | undefined
  /** The port of the suite's server; 0 for any. */
  readonly port: number
  readonly node: string | undefined
  readonly program: string | undefined
  readonly update: boolean
}

export const USAGE = `usage: npm run conformance:cache -- [options]
  --way WAY       run only one of ${WAYS.join(', ')}
  --store STORE   where Sluice stores responses: ${STORES.join(', ')}; for redis the run starts a server
  --only ID       run a single test, without those that it depends on, and print its messages
  --node FILE     run Sluice with that Node instead of this one
  --program FILE  test another build of Sluice instead of dist/bin.js
  --update        write the lists of tests that pass
  --base URL      test another gateway, which must forward to 127.0.0.1 and the port of --port
  --proxy URL     test another forward proxy
  --port PORT     the port of the suite's server
`

/** @throws Error with one line for the user */
export function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      way: { type: 'string' },
      store: { type: 'string', default: 'memory' },
      only: { type: 'string' },
      node: { type: 'string' },
      program: { type: 'string' },
      update: { type: 'boolean', default: false },
      base: { type: 'string' },
      proxy: { type: 'string' },
      port: { type: 'string', default: '0' },
    },
  })
  const { base, proxy, update, only, node, program } = values
  if (base !== undefined && proxy !== undefined) throw new Error('--base and --proxy cannot be combined')
  const peer = base ?? proxy
  if (update && (peer !== undefined || only !== undefined))
    throw new Error('--update needs a run of the whole suite through Sluice')
  const port = Number(values.port)
  if (!/^\d+$/.test(values.port) || port > 65_535) throw new Error(`"${values.port}" is not a port`)
  return {
    ways: waysOf(values.way, base, proxy),
    store: oneOf(values.store, STORES),
    only,
    peer: peer === undefined ? undefined : new URL(peer).origin,
    port,
    node,
    program: program === undefined ? undefined : resolve(program),
    update,
  }
}

function waysOf(
  way: string | undefined,
  base: string | undefined,
  proxy: string | undefined,
): readonly Way[] {
  if (base !== undefined) return ['gateway']
  if (proxy !== undefined) return ['forward']
  return way === undefined ? WAYS : [oneOf(way, WAYS)]
}

function oneOf<T extends string>(asked: string, all: readonly T[]): T {
  const found = all.find(name => name === asked)
  if (found === undefined) throw new Error(`"${asked}" is not one of ${all.join(', ')}`)
  return found
}
