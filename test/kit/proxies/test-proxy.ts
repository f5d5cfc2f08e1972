/**
 * Starts complete proxies: in this process, on free ports, with the log in an array. `setups.ts` combines them with
 * peers.
 */
import '../every-test.js'
import type { Test } from 'tap'
import {
  createLogger,
  type Loaded,
  type ProxyEnvironment,
  parseConfig,
  type Reloaded,
  startProxy,
} from '../../../src/index.js'
import { checkAllEnded, WatchedLedger } from '../all-ended.js'
import { Authority } from '../peers/authority.js'
import { type Exposition, parseExposition } from '../peers/exposition.js'
import { type TlsPeer, tlsClient } from '../peers/tls-client.js'
import { Changes, until } from '../until.js'

export interface LogEvent {
  readonly event: string
  readonly [key: string]: unknown
}

/** A resolver, a connector, a clock or a ledger of the test's own, and: */
export interface TestProxyOptions extends Partial<ProxyEnvironment> {
  /** Whether there is also a TLS listener, for localhost. */
  readonly tls?: boolean
}

export interface TestProxy {
  /** The port of the first listener; 0 for a Unix socket. */
  readonly port: number
  /** The port of the TLS listener; 0 without one. */
  readonly tlsPort: number
  readonly adminPort: number
  /** The authority that has issued the certificate of the TLS listener. */
  readonly ca: Authority
  /** A client of the TLS listener that trusts it. */
  connectTls(): Promise<TlsPeer>
  metrics(): Promise<Exposition>
  /** The log so far, parsed. */
  readonly events: readonly LogEvent[]
  /** Waits for the `count`th event of that name. */
  event(name: string, count?: number): Promise<LogEvent>
  /** Reloads another configuration, in the format of testProxy. */
  reload(yaml: string): Promise<Reloaded>
  drain(): Promise<void>
}

/** Allows every port of loopback, by name and by address, as tests of forwarding and tunnels need. */
export const LOOPBACK_RULES = `
rules:
  local: { hosts: ["127.0.0.1", "[::1]", "*.test", localhost], ports: ["any"], addresses: ["127.0.0.0/8", "::1/128"] }
`

/**
 * @param yaml the configuration file without `version` and, unless it has its own, `listen`; without `shutdown`, a
 *   drain ends at once
 */
export async function testProxy(
  t: Test,
  yaml: string = LOOPBACK_RULES,
  { tls = false, ...environment }: TestProxyOptions = {},
): Promise<TestProxy> {
  const events: LogEvent[] = []
  const changes = new Changes()
  const logger = createLogger('info', {
    write: line => {
      events.push(JSON.parse(line) as LogEvent)
      changes.notify()
    },
  })
  const ledger = new WatchedLedger(environment.now ?? (() => performance.now()))
  const authority = tls ? Authority.make(t.testdir()) : undefined
  const config = load(authority === undefined ? yaml : listenTls(authority) + yaml)
  const proxy = await startProxy(config, { logger, startId: 'test', ledger, ...environment })
  let drained: Promise<void> | undefined
  const drain = (): Promise<void> => {
    drained ??= proxy.drain()
    return drained
  }
  t.teardown(async () => {
    await drain()
    await checkAllEnded(t, events, ledger, changes)
    changes.end()
  })
  if (proxy.proxy.length === 0 || proxy.admin === undefined) throw new Error('not listening')
  const adminPort = proxy.admin.port ?? 0
  const tlsPort = proxy.tls?.port ?? 0
  const ca = (): Authority => {
    if (authority === undefined) throw new Error('started without { tls: true }')
    return authority
  }
  return {
    port: proxy.proxy[0]?.port ?? 0,
    tlsPort,
    adminPort,
    get ca() {
      return ca()
    },
    connectTls: () => tlsClient(t, tlsPort, { ca: ca().cert }),
    metrics: async () => {
      const answer = await fetch(`http://127.0.0.1:${adminPort}/metrics`)
      return parseExposition(await answer.text(), 'text')
    },
    events,
    reload: text => proxy.reload(load(text)),
    drain,
    event: (name, count = 1) =>
      until(
        `event ${count} of the log named ${name}`,
        () => events.filter(({ event }) => event === name)[count - 1],
        { changes, seen: () => events },
      ),
  }
}

function listenTls(ca: Authority): string {
  const { certFile, keyFile } = ca.issue({ san: 'DNS:localhost' })
  const tls = `{ address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile} }`
  return `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0", tls: ${tls} }\n`
}

function load(yaml: string): Loaded {
  const shutdown = /^shutdown:/m.test(yaml) ? '' : 'shutdown: { drain: 0s }\n'
  const listen = /^listen:/m.test(yaml) ? '' : 'listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }\n'
  return parseConfig(`version: 1\n${listen}${shutdown}${yaml}`)
}
