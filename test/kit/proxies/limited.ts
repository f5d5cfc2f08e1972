/** A proxy with limits, its clock and its books, and what those are told who have run into a limit. */
import type { Test } from 'tap'
import { LocalLedger } from '../../../src/limits/ledger.js'
import { parseExposition } from '../peers/exposition.js'
import { ManualClock } from '../fakes/manual-clock.js'
import type { Tunnel } from './open-tunnel.js'
import { DATE, WALL_CLOCK } from './refusal.js'
import { until } from '../until.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from './test-proxy.js'

export interface Limited {
  readonly proxy: TestProxy
  readonly ledger: LocalLedger
  readonly clock: ManualClock
  /** How often each limit has refused something, by /metrics. */
  rejected(): Promise<Record<string, number>>
}

/**
 * @param limits what stands under that key
 * @param yaml what else the configuration holds
 */
export async function limited(t: Test, limits: string, yaml = ''): Promise<Limited> {
  const clock = new ManualClock()
  const ledger = new LocalLedger(clock.now)
  const proxy = await testProxy(t, `${LOOPBACK_RULES}limits: { ${limits} }\n${yaml}`, {
    now: clock.now,
    wallClock: WALL_CLOCK,
    ledger,
  })
  const rejected = async () => {
    const answer = await fetch(`http://127.0.0.1:${proxy.adminPort}/metrics`)
    const { families } = parseExposition(await answer.text(), 'text')
    const counts: Record<string, number> = {}
    for (const [series, count] of families.get('sluice_limit_rejections_total')?.samples ?? []) {
      const name = /limit="(\w+)"/.exec(series)?.[1]
      if (name !== undefined && count > 0) counts[name] = count
    }
    return counts
  }
  return { proxy, ledger, clock, rejected }
}

/** What the limits on connections and tunnels are counted under here. */
const COUNTED = ['connections', 'connections 127.0.0.1', 'tunnels', 'tunnels private address 127.0.0.1']

/** Waits until nothing is held any more. */
export async function givenBack(ledger: LocalLedger, keys: readonly string[] = COUNTED): Promise<void> {
  const held = () => keys.filter(key => ledger.held(key) > 0)
  await until('everything to be given back', () => held().length === 0, { seen: held })
}

/** The whole answer, byte by byte. */
export function refusal(
  status: string,
  details: string,
  body: string,
  close: boolean,
  retryAfter = 5,
): string {
  const sentence = `Sluice answered ${status.slice(0, 3)}: ${body}\n`
  return [
    `HTTP/1.1 ${status.slice(0, 3)} Sluice: ${details}`,
    `Date: ${DATE}`,
    `Proxy-Status: sluice;error=http_request_denied;details="${details}"`,
    'Content-Type: text/plain; charset=utf-8',
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    `Retry-After: ${retryAfter}`,
    `Content-Length: ${sentence.length}`,
    ...(close ? ['Connection: close'] : []),
    '',
    sentence,
  ].join('\r\n')
}

/** Whether bytes still pass both ways. */
export async function passes({ client, upstream }: Tunnel): Promise<boolean> {
  client.write('up')
  upstream.write('down')
  return (await upstream.until(2)) === 'up' && (await client.until(4)) === 'down'
}
