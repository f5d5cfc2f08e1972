/** Without `tracing` the fields of a trace pass as they come, and nothing that tracing needs is loaded. */
import { createRequire } from 'node:module'
import t from 'tap'
import { collector } from '../kit/peers/collector.js'

import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'

const FIELDS = 'TraceParent: 00-nonsense\r\ntracestate: b=2, a=1\r\nTRACESTATE: \r\n'

/** Modules of OpenTelemetry that this process has loaded, less the types and names that prom-client brings along. */
function loaded(): string[] {
  return Object.keys(createRequire(import.meta.url).cache).filter(path =>
    /@opentelemetry\/(?!api\/)/.test(path),
  )
}

t.test(
  'traceparent and tracestate are forwarded unchanged, whatever the handler, and no SDK is loaded',
  async t => {
    const origin = await scriptedOrigin(t)
    const proxy = await testProxy(
      t,
      `${LOOPBACK_RULES}origins: [{ path: /, forward: "http://${origin.authority}" }]\n`,
    )
    for (const target of [`http://${origin.authority}/`, '/']) {
      const client = await rawClient(t, proxy.port)
      client.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n${FIELDS}\r\n`)
      t.equal((await readResponse(client, 'GET')).status, 200)
      t.match(origin.requests.at(-1)?.head, `\r\n${FIELDS}`.trimEnd(), target)
    }
    t.equal(origin.requests.length, 2)
    await proxy.drain()
    t.same(loaded(), [])
  },
)

t.test('with tracing it is loaded', async t => {
  const sink = await collector(t)
  const proxy = await testProxy(t, `tracing: { otlp: "${sink.url}" }\n`)
  await proxy.drain()
  t.ok(loaded().length > 0)
})
