/** The body of a refusal, as a client sees it. */
import t from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const NOTE = 'Fragen? #egress – „größer“ 🙂'
const CONFIG = `
error_note: "${NOTE}"
rules: { web: { hosts: ["*.test"] } }
`

/** Each is answered by Sluice itself, and closes the connection or not as it would without a note. */
const ERRORS: [request: string, status: number, first: string][] = [
  [
    'CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n',
    403,
    'Sluice refused this by policy: No rule that this client may use names a.example.',
  ],
  [
    'GET http://a.example/?q HTTP/1.1\r\nHost: a\r\n\r\n',
    403,
    'Sluice refused this by policy: No rule that this client may use names a.example.',
  ],
  ['GET http://gone.test/ HTTP/1.1\r\nHost: a\r\n\r\n', 502, 'Sluice answered 502: DNS has no address'],
  ['TRACE / HTTP/1.1\r\nHost: a\r\n\r\n', 405, 'Sluice answered 405: TRACE is off'],
  ['GET / HTTP/1.1\r\n\r\n', 400, 'Sluice answered 400: no Host.'],
  ['GET / HTTP/1.1\r\nbad field\r\n', 400, 'Sluice answered 400: '],
]

const lookup = async (): Promise<never> => {
  throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' })
}

t.test('error_note is the last line of every error response of Sluice', async t => {
  const proxy = await testProxy(t, CONFIG, { lookup })
  for (const [request, status, first] of ERRORS) {
    const client = await rawClient(t, proxy.port)
    client.write(request)
    const response = await readResponse(client)
    t.equal(response.status, status)
    const body = Buffer.from(response.body, 'latin1').toString()
    t.equal(body.slice(0, first.length), first)
    t.equal(body.split('\n').slice(-2).join('\n'), `${NOTE}\n`)
    t.equal(body.split(NOTE).length, 2, 'once')
    client.destroy()
  }
})

t.test('a response to HEAD counts the note and has no content (RFC 9110 §9.3.2)', async t => {
  const proxy = await testProxy(t, CONFIG)
  const client = await rawClient(t, proxy.port)
  client.write('HEAD http://a.example/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  const answer = await client.untilEnd()
  const length = Number(/\r\nContent-Length: (\d+)\r\n/.exec(answer)?.[1])
  t.ok(length > Buffer.byteLength(NOTE))
  t.ok(answer.endsWith('\r\n\r\n'))
})

t.test('responses that are not errors have no note', async t => {
  const proxy = await testProxy(t, CONFIG)
  const client = await rawClient(t, proxy.port)
  client.write('OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  const answer = await client.untilEnd()
  t.match(answer, /^HTTP\/1\.1 200 /)
  t.ok(answer.endsWith('\r\n\r\n'))
})

t.test(
  'a refusal by policy says whose policy it is and how to see why, with no bytes of the client',
  async t => {
    const proxy = await testProxy(t, 'rules: { web: { hosts: ["*.test"] } }')
    const client = await rawClient(t, proxy.port)
    client.write(
      'POST HTTP://A.Example.:8080/secret?token HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n',
    )
    const answer = await client.untilEnd()
    t.match(
      answer,
      '\nTo see why: sluice explain --config FILE --client private --method POST http://a.example:8080/\n',
    )
    t.notMatch(answer, /secret|evil|A\.Ex/)
  },
)
