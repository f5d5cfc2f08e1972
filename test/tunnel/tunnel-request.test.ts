/** The CONNECT request to a parent. Its responses are tested in test/wire/parent-tunnel.test.ts. */
import t from 'tap'
import { Via } from '../../src/http/via.js'
import { parseHost } from '../../src/http/authority.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { OutgoingTrace } from '../../src/http/trace-context.js'
import { serializeRequestHead } from '../../src/http1/request-writer.js'
import { tunnelRequest } from '../../src/tunnel/tunnel-request.js'

const VIA = new Via('p')

/** The client's CONNECT. */
function asked(list: readonly string[], minor: 0 | 1 = 1, trace?: OutgoingTrace) {
  const fields = FieldSection.of(list)
  const head = { method: 'CONNECT', target: 'a.test:443', minor, fields, framing: { kind: 'none' } } as const
  return { exchange: { head }, trace }
}

/** The bytes of the request. */
function serializeTunnelRequest(...given: Parameters<typeof tunnelRequest>): string {
  return serializeRequestHead(tunnelRequest(...given))
}

const target = (host: string, port: number) => ({ host: parseHost(host), port })

t.test('target and Host have host and port, IPv6 in brackets (RFC 9112 §3.2.3)', async t => {
  t.equal(
    serializeTunnelRequest(target('[2001:DB8::1]', 8443), asked([]), VIA, undefined),
    'CONNECT [2001:db8::1]:8443 HTTP/1.1\r\nHost: [2001:db8::1]:8443\r\nVia: 1.1 p\r\n\r\n',
  )
})

t.test('Via is forwarded and gets this hop, with the version of the request (RFC 9110 §7.6.3)', async t => {
  const fields = ['Via', '1.1 a', 'X', 'y', 'via', '1.0 b (c), ,']
  t.match(
    serializeTunnelRequest(target('a.test', 443), asked(fields, 0), VIA, undefined),
    '\r\nVia: 1.1 a, 1.0 b (c), 1.0 p\r\n\r\n',
  )
})

t.test('no other field of the client is forwarded, and the credentials are those for the parent', async t => {
  const fields = ['Proxy-Authorization', 'Basic x', 'User-Agent', 'x', 'Cookie', 'x']
  t.equal(
    serializeTunnelRequest(target('a.test', 443), asked(fields), VIA, 'Basic y'),
    'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nVia: 1.1 p\r\nProxy-Authorization: Basic y\r\n\r\n',
  )
})

t.test(
  'the fields of a trace are forwarded, with this hop if it is traced (W3C Trace Context §4.3)',
  async t => {
    const fields = ['TraceParent', '00-nonsense', 'X', 'y', 'tracestate', 'a=1', 'TraceState', '']
    const request = (connection: string, trace?: OutgoingTrace) =>
      serializeTunnelRequest(
        target('a.test', 443),
        asked([...fields, 'Connection', connection], 1, trace),
        VIA,
        'Basic y',
      )
    const start = 'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nVia: 1.1 p\r\n'
    const end = 'Proxy-Authorization: Basic y\r\n\r\n'
    const state = 'tracestate: a=1\r\nTraceState: \r\n'
    t.equal(request('x'), `${start}TraceParent: 00-nonsense\r\n${state}${end}`)
    t.equal(
      request('x', { traceparent: '00-1-2-01', continues: true }),
      `${start}${state}traceparent: 00-1-2-01\r\n${end}`,
    )
    t.equal(
      request('x', { traceparent: '00-1-2-01', continues: false }),
      `${start}traceparent: 00-1-2-01\r\n${end}`,
    )
    t.equal(request('TraceState'), `${start}TraceParent: 00-nonsense\r\n${end}`)
  },
)
