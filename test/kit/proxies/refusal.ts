/** The form of every error response of Sluice. */
import type { Test } from 'tap'
import type { RawResponse } from '../peers/read-response.js'
import type { LogEvent, TestProxy } from './test-proxy.js'

/** A wall clock for ProxyEnvironment, and the Date that results. */
export const WALL_CLOCK = (): number => Date.UTC(1994, 10, 6, 8, 49, 37)
export const DATE = 'Sun, 06 Nov 1994 08:49:37 GMT'

const BY_POLICY =
  /^Sluice refused this by policy: [\x20-\x7e]+\n(?:To see why: sluice explain --config FILE --client [\x20-\x7e]+\n)?$/
const answered = (status: number): RegExp => new RegExp(`^Sluice answered ${status}: [^\\n]+\\n$`)

export interface Expected {
  readonly status: number
  /** The method of the request; a response to HEAD has no content. */
  readonly method?: string
  /** Whether the connection closes after it. */
  readonly close: boolean
}

/** Checks everything that refusals have in common; the proxy's wall clock must be WALL_CLOCK. */
export function checkRefusal(t: Test, response: RawResponse, expected: Expected): void {
  const { fields } = response
  t.equal(response.status, expected.status)
  t.match(response.reason, /^Sluice: [\x20-\x7e]+$/)
  t.equal(fields['date'], DATE)
  t.match(fields['proxy-status'], /^sluice;error=[a-z_]+;details="[\x20-\x7e]+"$/)
  t.equal(fields['connection'], expected.close ? 'close' : undefined)
  t.equal(fields['transfer-encoding'], undefined)
  if (expected.method === 'HEAD') t.equal(response.body, '')
  else {
    t.match(response.body, [403, 508].includes(expected.status) ? BY_POLICY : answered(expected.status))
    t.equal(fields['content-length'], String(response.body.length))
  }
}

/** Checks that an exchange has logged its two events, in order, and nothing else since `from`. */
export async function checkEvents(
  t: Test,
  proxy: TestProxy,
  from: number,
  decision: object,
  close: object,
): Promise<readonly LogEvent[]> {
  const closes = proxy.events.slice(0, from).filter(({ event }) => event === 'close').length
  await proxy.event('close', closes + 1)
  const events = proxy.events.slice(from)
  t.match(events, [
    { event: 'decision', ...decision },
    { event: 'close', ...close },
  ])
  t.equal(events.length, 2)
  t.equal(events[0]?.['id'], events[1]?.['id'])
  return events
}

/** The complete response to a request that a limit refuses, byte by byte. */
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
