/** The sender of an origin: what undici sends, what our own sender sends, and that nothing is sent twice. */
import { stat } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { type Permit, permitConfigured } from '../../src/policy/permit.js'
import { Dialer } from '../../src/upstream/dial.js'
import { OriginSender } from '../../src/upstream/origin-sender.js'
import type { UpstreamRequest } from '../../src/upstream/sender.js'
import { Undici } from '../../src/upstream/undici-sender.js'
import { policy } from '../kit/fakes/policy.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { OK, OK_LINE } from '../kit/peers/responses.js'
import { turns } from '../kit/peers/until-stable.js'
import { GivenContent, Recorder, REQUEST } from './exchange-recorder.js'

async function setup(t: Test, keepAliveMs = 60_000) {
  const origin = await rawOrigin(t)
  const dialer = new Dialer({
    resolver: { cached: () => undefined, resolve: async () => [] },
    inForce: { policy: policy({ rules: {} }) },
    connectTimeoutMs: 10_000,
    descriptors: NO_DESCRIPTOR_KEPT,
    now: () => performance.now(),
  })
  const undici = new Undici()
  const sender = new OriginSender({ scheme: 'http', dialer, headerBytes: 16_384, keepAliveMs }, undici)
  t.teardown(() => {
    sender.close()
    undici.close()
  })
  const permitTo = (address: string): Permit =>
    permitConfigured('test', { kind: 'name', name: 'a.test' }, origin.port, [address])
  const send = (request: Partial<UpstreamRequest> = {}, fresh = false, address = '127.0.0.1') => {
    const recorder = new Recorder()
    const cancel = sender.send({ ...REQUEST, ...request }, permitTo(address), recorder, fresh)
    return { recorder, cancel }
  }
  /** Sends one request and its response on a new connection. */
  const open = async (response = OK) => {
    const { recorder } = send()
    const peer = await origin.accept()
    const head = await peer.until('\r\n\r\n')
    peer.write(response)
    await recorder.done
    // undici reuses a connection in the next turn.
    await turns()
    return { peer, head, recorder }
  }
  return { origin, sender, send, open }
}

/** undici writes the names of the fields that it generates in lower case, our sender does not. */
const sentBy = (head: string): string => (/\r\nhost: /.test(head) ? 'undici' : 'own')

const CHOICES: readonly (readonly [string, Partial<UpstreamRequest>, string])[] = [
  ...['GET', 'DELETE', 'OPTIONS', 'TRACE'].map(method => [method, { method }, 'undici'] as const),
  ...['POST', 'PATCH'].map(method => [`${method}, which may not be sent twice`, { method }, 'own'] as const),
  ['PUT, which undici writes a length for', { method: 'PUT' }, 'own'],
  ['HEAD, behind which undici closes the connection', { method: 'HEAD' }, 'own'],
  ['an extension method', { method: 'QUERY' }, 'own'],
  ['OPTIONS *', { method: 'OPTIONS', path: '*' }, 'own'],
  ['content of a known length', { method: 'POST', content: new GivenContent(2, 'hi') }, 'own'],
  ['content of unknown length', { method: 'PUT', content: new GivenContent(undefined) }, 'own'],
  ['Expect', { method: 'PUT', expectContinue: true, content: new GivenContent(2, 'hi') }, 'own'],
  ['Upgrade', { upgrade: 'websocket' }, 'own'],
  ['a length of zero in PUT', { method: 'PUT', sendsZeroLength: true }, 'own'],
  ['a length of zero in DELETE', { method: 'DELETE', sendsZeroLength: true }, 'own'],
  ['Trailer', { fields: ['A', 'b', 'TRAILER', 'x'] }, 'own'],
  ['other fields', { fields: ['A', 'b', 'a', '\xe9'] }, 'undici'],
]

for (const [what, request, expected] of CHOICES) {
  t.test(`${what}: by ${expected}`, async t => {
    const { origin, send } = await setup(t)
    const { cancel } = send(request)
    const head = await (await origin.accept()).until('\r\n\r\n')
    t.equal(sentBy(head), expected)
    t.match(head, `${request.method ?? 'GET'} ${request.path ?? '/'} HTTP/1.1\r\n`)
    for (const value of request.fields ?? []) if (expected === 'undici') t.match(head, value)
    cancel()
  })
}

t.test('a connection is reused, and all events are reported in order', async t => {
  const { origin, send, open } = await setup(t)
  const { peer, recorder } = await open()
  t.same(recorder.told, ['connected', 'sent', 'responded 200', 'data 2', 'ended'])
  const again = send()
  await peer.until('\r\n\r\n')
  peer.write(
    `HTTP/1.1 103 Early Hints\r\n\r\n${OK_LINE}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: 1\r\n\r\n`,
  )
  await again.recorder.done
  t.same(again.recorder.told, ['reused', 'sent', 'interim 103', 'responded 200', 'data 2', 'ended X 1'])
  t.equal(origin.accepted, 1)
})

t.test('nothing is sent on a connection that was closed while idle; the request gets a new one', async t => {
  const { origin, send, open } = await setup(t)
  const { peer } = await open()
  peer.end()
  const { recorder } = send()
  const other = await origin.accept()
  await other.until('\r\n\r\n')
  other.write(OK)
  await recorder.done
  t.same(recorder.told, ['connected', 'sent', 'responded 200', 'data 2', 'ended'])
  t.equal(peer.received, '')
})

t.test(
  'a request on a reused connection that is closed without a response may be sent again, on a new one',
  async t => {
    const { origin, send, open } = await setup(t)
    const { peer } = await open()
    const { recorder } = send()
    await peer.until('\r\n\r\n')
    peer.reset()
    await recorder.done
    t.same(recorder.told, ['reused', 'sent', 'failed reused-connection'])
    await open()
    const fresh = send({}, true)
    const other = await origin.accept()
    t.equal(sentBy(await other.until('\r\n\r\n')), 'own', 'as undici cannot be asked for one')
    other.write(OK)
    await fresh.recorder.done
    t.same(fresh.recorder.told, ['connected', 'sent', 'responded 200', 'data 2', 'ended'])
  },
)

t.test('after an unsolicited 100, this and all further requests are sent with our own sender', async t => {
  const { origin, send } = await setup(t)
  const { recorder } = send()
  const first = await origin.accept()
  t.equal(sentBy(await first.until('\r\n\r\n')), 'undici')
  first.write('HTTP/1.1 100 Continue\r\n\r\n')
  const second = await origin.accept()
  t.equal(sentBy(await second.until('\r\n\r\n')), 'own')
  second.write(`HTTP/1.1 100 Continue\r\n\r\n${OK}`)
  await recorder.done
  t.same(recorder.told.slice(-4), ['interim 100', 'responded 200', 'data 2', 'ended'])
  const next = send()
  t.equal(sentBy(await second.until('\r\n\r\n')), 'own')
  second.write(OK)
  await next.recorder.done
  t.equal(origin.accepted, 2)
})

for (const method of ['POST', 'PATCH']) {
  for (const [what, interim] of [
    ['100 that nobody asked for', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['103 that says close', 'HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n'],
  ]) {
    t.test(
      `${what} before the response to ${method}: it gets the response, and is sent once (RFC 9110 §9.2.2)`,
      async t => {
        const { origin, send } = await setup(t)
        const { recorder } = send({ method, sendsZeroLength: true })
        const peer = await origin.accept()
        await peer.until('\r\n\r\n')
        peer.write(`${interim}HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n`)
        await recorder.done
        t.same(recorder.told.slice(-2), ['responded 201', 'ended'])
        await turns()
        t.equal(origin.accepted, 1)
      },
    )
  }
}

/** The phases of the event loop in which a request is sent: the system is polled for input between the two. */
const PHASES = {
  'once the system was asked what there is to read': () => stat('.'),
  'before it is asked': () => setImmediate(),
}

for (const [when, phase] of Object.entries(PHASES)) {
  for (const [what, arrive] of [
    ['a response', (peer: RawPeer) => peer.write(`${OK_LINE}Content-Length: 6\r\n\r\nforged`)],
    ['half a response', (peer: RawPeer) => peer.write('HTTP')],
    ['an empty line', (peer: RawPeer) => peer.write('\r\n')],
    ['what is no HTTP', (peer: RawPeer) => peer.write('hello')],
    ['an end', (peer: RawPeer) => peer.end()],
    ['a reset', (peer: RawPeer) => peer.reset()],
  ] as const) {
    t.test(
      `${what} on an idle connection, ${when}, closes only that connection (RFC 9112 §11.1)`,
      async t => {
        const { origin, send, open } = await setup(t)
        const { peer } = await open()
        await phase()
        arrive(peer)
        const { recorder } = send()
        const other = await origin.accept()
        await other.until('\r\n\r\n')
        other.write(OK)
        await recorder.done
        t.same(recorder.told, ['connected', 'sent', 'responded 200', 'data 2', 'ended'])
        t.equal(recorder.content, 'ok')
        t.equal(peer.received, '', 'nothing was sent on it')
      },
    )
  }
}

for (const [what, arrive] of [
  ['a reset', (peer: RawPeer) => peer.reset()],
  ['a response', (peer: RawPeer) => peer.write(`${OK_LINE}Content-Length: 6\r\n\r\nforged`)],
] as const) {
  t.test(`${what} that arrives while undici checks the connection does not fail the request`, async t => {
    const { origin, send, open } = await setup(t)
    const { peer } = await open()
    const { recorder } = send()
    // undici has been given the request in this turn, and sends it in the next.
    await setImmediate()
    arrive(peer)
    const other = await origin.accept()
    await other.until('\r\n\r\n')
    other.write(OK)
    await recorder.done
    t.same(recorder.told, ['connected', 'sent', 'responded 200', 'data 2', 'ended'])
    t.equal(peer.received, '')
  })
}

t.test(
  'a request whose connection is being checked gets a response if the sender is retired, and ends if it is closed',
  async t => {
    const { origin, sender, send, open } = await setup(t)
    await open()
    const { recorder } = send()
    sender.retire()
    const other = await origin.accept()
    await other.until('\r\n\r\n')
    other.write(OK)
    await recorder.done
    t.equal(recorder.told.at(-1), 'ended')
    const second = await setup(t)
    await second.open()
    const { recorder: last } = second.send()
    second.sender.close()
    await last.done
    t.match(last.failures, [{ error: { type: 'connection_terminated' }, retry: 'never' }])
  },
)

for (const behind of ['H', 'HTTP/1.1 200 OK\r\n', `${OK_LINE}Content-Length: 6\r\n\r\nforged`, 'hello']) {
  t.test(
    `${JSON.stringify(behind)} after a response, in the same segment, closes the connection`,
    async t => {
      const { send, open, origin } = await setup(t)
      const { peer, recorder } = await open(OK + behind)
      t.equal(recorder.content, 'ok')
      const { recorder: next } = send()
      const other = await origin.accept()
      await other.until('\r\n\r\n')
      other.write(OK)
      await next.done
      t.equal(next.content, 'ok')
      t.equal(peer.received, '')
    },
  )
}

t.test('several requests at a time check idle connections, each a different one', async t => {
  const { origin, send, open } = await setup(t)
  const { peer } = await open()
  peer.write(`${OK_LINE}Content-Length: 6\r\n\r\nforged`)
  const sent = [send(), send(), send()]
  for (const _ of sent) {
    const other = await origin.accept()
    await other.until('\r\n\r\n')
    other.write(OK)
  }
  for (const { recorder } of sent) {
    await recorder.done
    t.equal(recorder.content, 'ok')
  }
})

t.test('each response has its own version and its reason phrase as received (RFC 9112 §4)', async t => {
  const { origin, send, open } = await setup(t)
  const { peer, recorder } = await open('HTTP/1.1 200 \xe9 \xfc\r\nContent-Length: 2\r\n\r\nhi')
  t.match(recorder.heads, [{ minor: 1, reason: '\xe9 \xfc' }])
  const { recorder: second } = send()
  await peer.until('\r\n\r\n')
  const told = new Promise<void>(resolve => {
    second.onTold = line => line === 'interim 103' && resolve()
  })
  peer.write('HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.0 200 Fi')
  await told
  peer.write('ne\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi')
  await second.done
  t.match(second.heads, [{ minor: 0, reason: 'Fine' }])
  const { recorder: third } = send()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi')
  await third.done
  t.match(third.heads, [{ minor: 1, reason: '' }])
  t.equal(origin.accepted, 1)
})

t.test('a head, including its status line, has at most as many bytes as the limit', async t => {
  for (const [over, expected] of [
    [0, 'ended'],
    [1, 'failed never'],
  ] as const) {
    const { open } = await setup(t)
    const fields = 'Content-Length: 0'
    const reason = 'x'.repeat(16_384 - 'HTTP/1.1 200 '.length - fields.length + over)
    const { recorder } = await open(`HTTP/1.1 200 ${reason}\r\n${fields}\r\n\r\n`)
    t.equal(recorder.told.at(-1), expected)
    if (over > 0) t.match(recorder.failures, [{ error: { type: 'http_response_header_section_size' } }])
  }
})

t.test('endless chunk extensions fail the response', async t => {
  const { origin, send } = await setup(t)
  const { recorder } = send()
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`${OK_LINE}Transfer-Encoding: chunked\r\n\r\n2;a=`)
  let written = 0
  const more = (): void => {
    written += 16_384
    if (!peer.socket.destroyed && written < 64 * 1024 * 1024) peer.socket.write('x'.repeat(16_384), more)
  }
  more()
  await recorder.done
  t.match(recorder.failures, [{ error: { type: 'http_protocol_error' }, retry: 'never' }])
  await peer.closed()
})

t.test('many small chunks, paused again and again, and large trailers do not fail the response', async t => {
  const { origin, send } = await setup(t)
  const { recorder } = send()
  recorder.isPausing = true
  recorder.onTold = line => {
    if (line.startsWith('data')) globalThis.setImmediate(() => recorder.flow?.resume())
  }
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  const chunks = '1;extension=value\r\nx\r\n'.repeat(2000)
  peer.write(`${OK_LINE}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n`)
  for (let i = 0; i < 150; i++) peer.write(`A: ${'x'.repeat(100)}\r\n`)
  peer.write('\r\n')
  await recorder.done
  t.match(recorder.told.at(-1), /^ended A x/)
  t.equal(recorder.content.length, 2000)
})

for (const [what, response, type] of [
  ['another version', 'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n', 'http_protocol_error'],
  ['another protocol', 'RTSP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', 'http_protocol_error'],
  [
    'Transfer-Encoding in HTTP/1.0',
    'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    'http_response_transfer_coding',
  ],
  ['gzip, chunked', `${OK_LINE}Transfer-Encoding: gzip, chunked\r\n\r\n`, 'http_response_transfer_coding'],
  ['two lengths', `${OK_LINE}Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi`, 'http_protocol_error'],
  [
    'an unknown transfer coding',
    `${OK_LINE}Transfer-Encoding: chunked, gzip\r\n\r\n`,
    'http_response_transfer_coding',
  ],
  ['a bare LF in front of it', `\n${OK}`, 'http_protocol_error'],
  ['a bare LF behind the status line', 'HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nhi', 'http_protocol_error'],
  ['a reason without end', `HTTP/1.1 200 ${'x'.repeat(40_000)}`, 'http_response_header_section_size'],
  ['too long a reason', `HTTP/1.1 200 ${'x'.repeat(40_000)}\r\n\r\n`, 'http_response_header_section_size'],
  ['empty lines without end', '\r\n'.repeat(9000), 'http_response_header_section_size'],
  ['no HTTP', 'hello\r\n\r\n', 'http_protocol_error'],
  ['too large a head', `${OK_LINE}X: ${'x'.repeat(17_000)}`, 'http_response_header_section_size'],
  ['half a head', `${OK_LINE}X: `, 'connection_terminated'],
  ['half the content', `${OK_LINE}Content-Length: 5\r\n\r\nhi`, 'http_response_incomplete'],
] as const) {
  t.test(`${what} is ${type}, and sent once`, async t => {
    const { origin, send } = await setup(t)
    const { recorder } = send()
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(response)
    peer.end()
    await recorder.done
    t.match(recorder.failures, [{ error: { type }, retry: 'never' }])
    t.equal(recorder.told.includes('ended'), false)
    t.equal(origin.accepted, 1)
  })
}

for (const trailer of [
  'Connection: close',
  'Connection: upgrade',
  'Keep-Alive: timeout=1',
  'Upgrade: x',
  'X: y',
]) {
  t.test(`${trailer} in a trailer section does not affect the next response (RFC 9110 §6.5.1)`, async t => {
    const { send, open } = await setup(t)
    const { peer, recorder } = await open(
      `${OK_LINE}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n${trailer}\r\n\r\n`,
    )
    t.same(recorder.told.slice(-2), ['data 2', `ended ${trailer.replace(':', '')}`])
    await peer.untilEnd()
    const next = await open()
    t.equal(next.recorder.told.at(-1), 'ended')
    const { recorder: third } = send()
    await next.peer.until('\r\n\r\n')
    next.peer.write(OK)
    await third.done
    t.equal(third.told.at(-1), 'ended')
  })
}

for (const trailer of [
  'Content-Length: 7',
  'Content-Length: 2',
  'Transfer-Encoding: chunked',
  'transfer-encoding: x',
]) {
  t.test(`${trailer} in a trailer section contradicts the framing and fails only this response`, async t => {
    const { open } = await setup(t)
    const { peer, recorder } = await open(
      `${OK_LINE}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n${trailer}\r\n\r\n`,
    )
    t.match(recorder.failures, [{ retry: 'never' }])
    t.equal(recorder.told.includes('ended'), false)
    await peer.untilEnd()
    t.equal((await open()).recorder.told.at(-1), 'ended')
  })
}

t.test('a 304 with the length of its representation is complete (RFC 9110 §8.6)', async t => {
  const { open } = await setup(t)
  const { recorder } = await open('HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n')
  t.same(recorder.told, ['connected', 'sent', 'responded 304', 'ended'])
  t.equal(recorder.heads[0]?.contentLength, 5)
  t.equal((await open()).recorder.told.at(-1), 'ended')
})

t.test(
  'a request whose interim response closes the connection is sent with our own sender (RFC 9112 §9.6)',
  async t => {
    const { origin, send } = await setup(t)
    const { recorder } = send()
    const hint = 'HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n'
    const first = await origin.accept()
    await first.until('\r\n\r\n')
    first.write(hint + OK)
    const second = await origin.accept()
    t.equal(sentBy(await second.until('\r\n\r\n')), 'own')
    second.write(hint + OK)
    await recorder.done
    t.same(recorder.told.slice(-3), ['responded 200', 'data 2', 'ended'])
  },
)

t.test('an idle connection is kept no longer than our own limit, whatever Keep-Alive says', async t => {
  const { open } = await setup(t, 20)
  const { peer } = await open(`${OK_LINE}Keep-Alive: timeout=9999999\r\nContent-Length: 2\r\n\r\nhi`)
  await peer.untilEnd()
  t.equal((await open()).recorder.told.at(-1), 'ended')
})

t.test('an idle connection is closed before the origin would close it (RFC 9112 §9.3)', async t => {
  const { open } = await setup(t)
  const { peer } = await open(`${OK_LINE}Keep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nhi`)
  await peer.untilEnd()
})

t.test('a reset does not complete content that is delimited by the connection', async t => {
  const { origin, send } = await setup(t)
  const { recorder } = send()
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  let reset = (): void => {}
  const come = new Promise<void>(resolve => {
    reset = resolve
  })
  recorder.onTold = line => line.startsWith('data') && reset()
  peer.write(`${OK_LINE}Connection: close\r\n\r\nhi`)
  await come
  peer.reset()
  await recorder.done
  t.match(recorder.failures, [{ error: { type: 'connection_terminated' }, retry: 'never' }])
})

t.test('a request can be cancelled while connecting, before it is sent, and during the response', async t => {
  const { origin, send, open } = await setup(t)
  const dialling = send()
  dialling.cancel()
  await turns()
  t.same(dialling.recorder.told, [])
  const { peer } = await open()
  const waiting = send()
  waiting.cancel()
  await turns()
  t.same(waiting.recorder.told, [])
  t.equal(peer.received, '')
  const answered = send()
  const other = origin.peers.at(-1) ?? peer
  await other.until('\r\n\r\n')
  answered.cancel()
  await other.untilEnd()
  t.same(answered.recorder.told, ['reused', 'sent'])
})

t.test('an address that the name no longer resolves to is not used', async t => {
  const { origin, send, open } = await setup(t)
  const { peer } = await open()
  const { cancel } = send({}, false, '127.0.0.2')
  await peer.untilEnd()
  t.equal(peer.received, '')
  t.equal(origin.accepted, 1)
  cancel()
})

t.test('a connection that was busy when its address was removed is not reused either', async t => {
  const { origin, send, open } = await setup(t)
  const { peer } = await open()
  const first = send()
  await peer.until('\r\n\r\n')
  send({}, false, '127.0.0.2').cancel()
  peer.write(OK)
  await first.recorder.done
  await peer.untilEnd()
  t.equal(first.recorder.told.at(-1), 'ended')
  t.equal(origin.accepted, 1)
})

t.test('a retired sender closes idle connections, and the others once they are idle', async t => {
  const { origin, sender, send, open } = await setup(t)
  const { peer } = await open()
  const first = send()
  const { recorder } = send()
  const other = await origin.accept()
  await Promise.all([peer.until('\r\n\r\n'), other.until('\r\n\r\n')])
  peer.write(OK)
  await first.recorder.done
  sender.retire()
  await peer.untilEnd()
  other.write(OK)
  await recorder.done
  t.equal(recorder.told.at(-1), 'ended')
  await other.untilEnd()
})

t.test('a closed sender fails the requests in progress', async t => {
  const { origin, sender, send } = await setup(t)
  const { recorder } = send()
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  sender.close()
  await recorder.done
  t.match(recorder.failures, [{ error: { type: 'connection_terminated' }, retry: 'never' }])
  await peer.untilEnd()
})

t.test('content waits while the receiver has paused', async t => {
  const { origin, send } = await setup(t)
  const { recorder } = send()
  recorder.isPausing = true
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  const come = new Promise<void>(resolve => {
    recorder.onTold = line => line.startsWith('data') && resolve()
  })
  peer.write(`${OK_LINE}Content-Length: 400000\r\n\r\n`)
  peer.write('x'.repeat(400_000))
  await come
  const held = recorder.content.length
  await turns()
  t.equal(recorder.content.length, held)
  recorder.isPausing = false
  recorder.flow?.resume()
  await recorder.done
  t.equal(recorder.content.length, 400_000)
})
