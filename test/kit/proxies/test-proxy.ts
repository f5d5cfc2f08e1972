/** A whole proxy in this process, on a free port, with its log in an array. */
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
import { Changes, until } from '../until.js'

export interface LogEvent {
  readonly event: string
  readonly [key: string]: unknown
}

export interface TestProxy {
  /** Of the first listener; 0 where that is a Unix socket. */
  readonly port: number
  /** Of the TLS listener; 0 where there is none. */
  readonly tlsPort: number
  readonly adminPort: number
  /** The log so far, parsed. */
  readonly events: readonly LogEvent[]
  /** Waits for the `count`th event of that name. */
  event(name: string, count?: number): Promise<LogEvent>
  /** Goes on with another configuration, written as testProxy takes it. */
  reload(yaml: string): Promise<Reloaded>
  drain(): Promise<void>
}

/** Allows every port of loopback by name and by literal; what tests of forwarding and tunnels need. */
export const LOOPBACK_RULES = `
rules:
  local: { hosts: ["127.0.0.1", "[::1]", "*.test", localhost], ports: ["any"], addresses: ["127.0.0.0/8", "::1/128"] }
`

/**
 * @param yaml what the configuration file holds beside `version` and, unless it has its own, `listen`; without `shutdown`, drain
 *   ends at once
 * @param environment a resolver, a connector or a clock of the test's own
 */
export async function testProxy(
  t: Test,
  yaml: string = LOOPBACK_RULES,
  environment: Partial<ProxyEnvironment> = {},
): Promise<TestProxy> {
  const events: LogEvent[] = []
  const changes = new Changes()
  const logger = createLogger('info', {
    write: line => {
      events.push(JSON.parse(line) as LogEvent)
      changes.notify()
    },
  })
  const proxy = await startProxy(load(yaml), { logger, startId: 'test', ...environment })
  let drained: Promise<void> | undefined
  const drain = (): Promise<void> => {
    drained ??= proxy.drain()
    return drained
  }
  t.teardown(drain)
  if (proxy.proxy.length === 0 || proxy.admin === undefined) throw new Error('not listening')
  return {
    port: proxy.proxy[0]?.port ?? 0,
    tlsPort: proxy.tls?.port ?? 0,
    adminPort: proxy.admin.port ?? 0,
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

function load(yaml: string): Loaded {
  const shutdown = /^shutdown:/m.test(yaml) ? '' : 'shutdown: { drain: 0s }\n'
  const listen = /^listen:/m.test(yaml) ? '' : 'listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }\n'
  return parseConfig(`version: 1\n${listen}${shutdown}${yaml}`)
}
