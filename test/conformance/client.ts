/**
 * The suite's client, as a process of its own: the suite keeps its results in modules, so that there is one run a process.
 * Says `{ tests, results }` to its parent.
 *
 *     node client.js '{"suite": …, "base": …}'
 */
import { Agent } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Results, SuiteTest } from './score.js'
import { TARGETED } from './targeted.js'

/** What a run is told. */
export interface ClientOptions {
  /** Folder of the suite. */
  readonly suite: string
  /** `http://host:port`, below which all requests go. */
  readonly base: string
  /** `http://host:port` of a forward proxy, which gets them in absolute-form (RFC 9112 §3.2.2). */
  readonly proxy?: string
  /** The id of one test, whose messages are printed. */
  readonly only?: string
}

/** What it says at the end. */
export interface ClientReport {
  /** All there are, whether they were run or not. */
  readonly tests: readonly SuiteTest[]
  readonly results: Results
}

/** In files of the suite. */
interface SuiteSet {
  readonly tests: readonly (SuiteTest & { dump?: boolean })[]
}

type Fetch = (url: string, init?: object) => Promise<unknown>

/** Without one, the suite would wait forever for what never answers. */
const ANSWER_MS = 20_000

/** What Node does before it connects, which is where agents of proxies rewrite a request: its types do not have it. */
interface AgentRequest {
  readonly path: string
}

interface ConnectOptions {
  host?: string
  port?: number | string
}

/** ConnectionFactory to the proxy, whatever the request is to, and has the whole URL in the request line. */
class AbsoluteFormAgent extends Agent {
  readonly #host: string
  readonly #port: number

  constructor(proxy: URL) {
    super()
    this.#host = proxy.hostname
    this.#port = Number(proxy.port)
  }

  addRequest(request: AgentRequest, options: ConnectOptions): void {
    const path = `http://${options.host}:${options.port}${request.path}`
    const add = Reflect.get(Agent.prototype, 'addRequest') as (...args: unknown[]) => void
    Object.assign(request, { path })
    add.call(this, request, { ...options, host: this.#host, port: this.#port })
  }
}

const { suite, base, proxy, only } = JSON.parse(process.argv[2] ?? '{}') as ClientOptions

async function load<T>(name: string): Promise<T> {
  return (await import(pathToFileURL(join(suite, name)).href)) as T
}

const fetch = createRequire(join(suite, 'cli.mjs'))('node-fetch') as Fetch
const { runTests, getResults } = await load<{
  runTests(sets: readonly SuiteSet[], fetch: Fetch, browserCache: boolean, base: string): Promise<void>
  getResults(): Results
}>('client/runner.mjs')
const { default: most } = await load<{ default: readonly SuiteSet[] }>('tests/index.mjs')
// The suite's own command adds these, too.
const { default: surrogate } = await load<{ default: SuiteSet }>('tests/surrogate-control.mjs')

const sets: readonly SuiteSet[] = [...most, surrogate, { tests: TARGETED }]
const tests = sets.flatMap(set => set.tests)
const chosen = only === undefined ? sets : [{ tests: tests.filter(({ id }) => id === only) }]
if (only !== undefined) for (const test of chosen.flatMap(set => set.tests)) test.dump = true

const init = {
  timeout: ANSWER_MS,
  ...(proxy === undefined ? {} : { agent: new AbsoluteFormAgent(new URL(proxy)) }),
}
await runTests(chosen, (url, own) => fetch(url, { ...own, ...init }), false, base)

const catalogue = tests.map(({ id, name, kind, depends_on, browser_only }) => ({
  ...{ id, name, kind, depends_on, browser_only },
}))
process.send?.({ tests: catalogue, results: getResults() }, () => process.disconnect())
