/**
 * The suite's client, as a separate process: the suite keeps its results in modules, so a process can run it only once.
 * Sends `{ tests, results }` to its parent.
 *
 *     node client.js '{"suite": …, "base": …}'
 */
import { Agent } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Results, SuiteTest } from './score.js'
import { TARGETED } from './targeted.js'

/** The options of a run. */
export interface ClientOptions {
  /** The folder of the suite. */
  readonly suite: string
  /** `http://host:port`, the base of all request URLs. */
  readonly base: string
  /** `http://host:port` of a forward proxy, which gets them in absolute-form (RFC 9112 §3.2.2). */
  readonly proxy?: string
  /** The id of one test, whose messages are printed. */
  readonly only?: string
}

/** The message that it sends at the end. */
export interface ClientReport {
  /** All tests, whether they were run or not. */
  readonly tests: readonly SuiteTest[]
  readonly results: Results
}

/** Exports of the suite's files. */
interface SuiteSet {
  readonly tests: readonly (SuiteTest & { dump?: boolean })[]
}

type Fetch = (url: string, init?: object) => Promise<unknown>

/** Without a timeout, the suite would wait for ever for a missing response. */
const ANSWER_MS = 20_000

/** Node's method that is called before it connects, in which proxy agents rewrite a request; Node's types lack it. */
interface AgentRequest {
  readonly path: string
}

interface ConnectOptions {
  host?: string
  port?: number | string
}

/** Connects to the proxy for every request, and sends the whole URL in the request line. */
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
// The suite's own command also adds these.
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
