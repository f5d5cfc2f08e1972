/** Both senders against one origin: what they report, and how long they keep a connection. */
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import type { ProxyError } from '../../src/errors.js'
import { type Permit, permitConfigured } from '../../src/policy/permit.js'
import { Dialer } from '../../src/upstream/dial.js'
import { NodeSender } from '../../src/upstream/node-sender.js'
import type {
  Again,
  Flow,
  Sender,
  UpstreamEvents,
  UpstreamHead,
  UpstreamRequest,
} from '../../src/upstream/sender.js'
import { type SenderOptions, UndiciSender } from '../../src/upstream/undici-sender.js'
import { policy } from '../kit/fakes/policy.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { dialled } from '../kit/fakes/dialled.js'
import { turns } from '../kit/peers/settled.js'
import { until } from '../kit/until.js'
import { OK } from '../kit/peers/responses.js'

const REQUEST: UpstreamRequest = {
  method: 'GET',
  path: '/',
  host: 'a.test',
  fields: [],
  content: undefined,
  sendsZeroLength: false,
  expectContinue: false,
  upgrade: undefined,
}

/** Writes down what it is told, in order. */
class Recorder implements UpstreamEvents {
  readonly told: string[] = []
  readonly heads: UpstreamHead[] = []
  readonly failures: { error: ProxyError; again: Again }[] = []
  readonly done: Promise<void>
  flow: Flow | undefined
  /** Whether to hold the response back from each piece on. */
  pausing = false
  #done: () => void = () => {}

  constructor() {
    this.done = new Promise(resolve => {
      this.#done = resolve
    })
  }

  connected(_address: string, connectMs: number | undefined): void {
    this.told.push(connectMs === undefined ? 'reused' : 'connected')
  }
  sent(): void {
    this.told.push('sent')
  }
  informed(head: UpstreamHead): void {
    this.told.push(`informed ${head.status}`)
  }
  responded(head: UpstreamHead, flow: Flow): void {
    this.told.push(`responded ${head.status}`)
    this.heads.push(head)
    this.flow = flow
  }
  data(chunk: Uint8Array): void {
    this.told.push(`data ${chunk.length}`)
    if (this.pausing) this.flow?.pause()
  }
  ended(trailers: readonly string[]): void {
    this.told.push(`ended ${trailers.join(' ')}`.trim())
    this.#done()
  }
  failed(error: ProxyError, again: Again): void {
    this.told.push(`failed ${again}`)
    this.failures.push({ error, again })
    this.#done()
  }
  upgraded(head: UpstreamHead): void {
    this.told.push(`upgraded ${head.status}`)
    this.#done()
  }
}

const KINDS = { undici: UndiciSender, 'node:http': NodeSender } as const
const DIALER = new Dialer({
  resolver: { kept: () => undefined, resolve: async () => [] },
  policy: () => policy({ rules: {} }),
  connectTimeoutMs: 10_000,
  descriptors: NO_DESCRIPTOR_KEPT,
  now: () => performance.now(),
})

function permitTo(port: number, address = '127.0.0.1'): Permit {
  return permitConfigured('test', { kind: 'ipv4', name: address }, port, [address], 0)
}

for (const [kind, Kind] of Object.entries(KINDS)) {
  /** A sender, its origin, and a way to send one request and to be answered. */
  const setup = async (t: Test, options: Partial<SenderOptions> = {}) => {
    const origin = await rawOrigin(t)
    const sender: Sender = new Kind({
      scheme: 'http',
      dialer: DIALER,
      maxHeaderBytes: 16_384,
      keepAliveMs: 4000,
      ...options,
    })
    t.teardown(() => sender.close())
    const send = (origin: RawOrigin, request: Partial<UpstreamRequest> = {}, fresh = false) => {
      const recorder = new Recorder()
      const cancel = sender.send({ ...REQUEST, ...request }, permitTo(origin.port), recorder, fresh)
      return { recorder, cancel }
    }
    return { origin, sender, send }
  }

  t.test(kind, async t => {
    await t.test('a method goes out in the case it has (RFC 9110 §9.1)', async t => {
      const { origin, send } = await setup(t)
      for (const method of ['Report', 'propFind', 'M-SEARCH']) {
        const { recorder } = send(origin, { method }, true)
        const peer = await origin.accept()
        t.match(await peer.until('\r\n\r\n'), new RegExp(`^${method} / HTTP/1\\.1\r\n`))
        peer.write(OK)
        await recorder.done
      }
    })

    await t.test('tells what happens in order', async t => {
      const { origin, send } = await setup(t)
      const { recorder } = send(origin)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write('HTTP/1.1 103 E\r\n\r\nHTTP/1.0 200 Fine\r\nX: \xff\r\nContent-Length: 2\r\n\r\nok')
      await recorder.done
      t.same(recorder.told, ['connected', 'sent', 'informed 103', 'responded 200', 'data 2', 'ended'])
      t.match(recorder.heads, [
        // The version is its own, and not that of what went before it.
        { status: 200, minor: 0, reason: 'Fine', fields: ['X', '\xff', 'Content-Length', '2'] },
      ])
    })

    await t.test('uses a connection again, unless it is to be a fresh one', async t => {
      const { origin, send } = await setup(t)
      const first = send(origin)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(OK)
      await first.recorder.done
      // The connection is free in a later turn of the event loop.
      await turns()
      const fresh = send(origin, {}, true)
      const other = await origin.accept()
      await other.until('\r\n\r\n')
      other.write(OK)
      await fresh.recorder.done
      t.match(fresh.recorder.told, ['connected'])
      const second = send(origin)
      await Promise.race([
        peer.until('\r\n\r\n').then(() => peer.write(OK)),
        other.until('\r\n\r\n').then(() => other.write(OK)),
      ])
      await second.recorder.done
      t.match(second.recorder.told, ['reused', 'sent', 'responded 200'])
    })

    await t.test('closes an idle connection after its time', async t => {
      const { origin, send } = await setup(t, { keepAliveMs: 20 })
      const { recorder } = send(origin)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(OK)
      await recorder.done
      t.equal(await peer.untilEnd(), '')
    })

    await t.test('closes it before the time that the origin names (RFC 9112 §9.3)', async t => {
      const { origin, send } = await setup(t, { keepAliveMs: 60_000 })
      for (const hint of ['timeout=0', 'timeout=1', 'max=5, timeout=1']) {
        const { recorder } = send(origin)
        const peer = await origin.accept()
        await peer.until('\r\n\r\n')
        peer.write(OK.replace('\r\n', `\r\nKeep-Alive: ${hint}\r\n`))
        await recorder.done
        t.equal(await peer.untilEnd(), '', hint)
      }
    })

    await t.test('closes everything when it is closed, idle or busy', async t => {
      const { origin, sender, send } = await setup(t)
      const idle = send(origin)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(OK)
      await idle.recorder.done
      const busy = send(origin, {}, true)
      const other = await origin.accept()
      await other.until('\r\n\r\n')
      sender.close()
      await busy.recorder.done
      t.match(busy.recorder.failures, [{ again: 'no' }])
      await peer.untilEnd()
      await other.untilEnd()
    })

    await t.test('a request that is cancelled is told nothing more, and its connection ends', async t => {
      const { origin, send } = await setup(t)
      const { recorder, cancel } = send(origin)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      cancel()
      cancel()
      await peer.untilEnd()
      t.same(recorder.told, ['connected', 'sent'])
    })

    await t.test('a request that is cancelled while dialling leaves no socket', async t => {
      const { connector, sockets } = dialled()
      const dialer = new Dialer({
        resolver: { kept: () => undefined, resolve: async () => [] },
        policy: () => policy({ rules: {} }),
        connectTimeoutMs: 10_000,
        descriptors: NO_DESCRIPTOR_KEPT,
        connector,
        now: () => 0,
      })
      const { origin, send } = await setup(t, { dialer })
      const { recorder, cancel } = send(origin)
      cancel()
      t.equal(sockets[0]?.destroyed, true)
      await turns(1)
      t.same(recorder.told, [])
    })

    await t.test('a request that is cancelled when it is complete leaves the connection alone', async t => {
      const { origin, send } = await setup(t)
      const { recorder, cancel } = send(origin)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write(OK)
      await recorder.done
      cancel()
      await turns()
      const second = send(origin)
      await peer.until('\r\n\r\n')
      peer.write(OK)
      await second.recorder.done
      t.match(second.recorder.told, ['reused'])
    })

    await t.test(
      'one that is cancelled before anything was sent gives its connection back, once',
      async t => {
        const { origin, send } = await setup(t)
        const first = send(origin)
        const peer = await origin.accept()
        await peer.until('\r\n\r\n')
        peer.write(OK)
        await first.recorder.done
        await turns()
        const given = send(origin)
        given.cancel()
        const next = send(origin)
        given.cancel()
        const other = send(origin)
        await peer.until('\r\n\r\n')
        peer.write(OK)
        const second = await origin.accept()
        await second.until('\r\n\r\n')
        second.write(OK)
        await Promise.all([next.recorder.done, other.recorder.done])
        t.same(given.recorder.told, [])
        t.match(next.recorder.told, ['reused', 'sent', 'responded 200'])
        t.match(other.recorder.told, ['connected', 'sent', 'responded 200'])
      },
    )

    await t.test('holds a response back while it is paused', async t => {
      const { origin, send } = await setup(t)
      const { recorder } = send(origin)
      recorder.pausing = true
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab')
      await until('the first data', () => recorder.told.includes('data 2'), { seen: () => recorder.told })
      peer.write('cd')
      await turns(50)
      t.equal(recorder.told.length, 4)
      recorder.pausing = false
      recorder.flow?.resume()
      await recorder.done
      t.same(recorder.told.slice(4), ['data 2', 'ended'])
    })

    await t.test('trailers come with the end', async t => {
      const { origin, send } = await setup(t)
      const { recorder } = send(origin)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      peer.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: \xff\r\nx-t: b\r\n\r\n')
      await recorder.done
      t.same(recorder.told.at(-1), 'ended X-T \xff x-t b')
    })

    await t.test('a refused connection fails once, and not as stale', async t => {
      const { send } = await setup(t)
      const { recorder } = send({ port: 1 } as RawOrigin)
      await recorder.done
      t.match(recorder.failures, [{ error: { type: 'connection_refused' }, again: 'no' }])
      t.same(recorder.told, ['failed no'])
    })
  })
}

t.test(
  'undici: an unasked 100 is to be sent exactly, and the origin is avoided (RFC 9110 §15.2.1)',
  async t => {
    const origin = await rawOrigin(t)
    const sender = new UndiciSender({
      scheme: 'http',
      dialer: DIALER,
      maxHeaderBytes: 16_384,
      keepAliveMs: 4000,
    })
    t.teardown(() => sender.close())
    t.equal(sender.avoids(permitTo(origin.port)), false)
    const recorder = new Recorder()
    sender.send(REQUEST, permitTo(origin.port), recorder, false)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write('HTTP/1.1 100 Continue\r\n\r\n')
    await recorder.done
    t.match(recorder.failures, [{ again: 'exact', error: { type: 'http_protocol_error' } }])
    t.equal(sender.avoids(permitTo(origin.port)), true)
    t.equal(sender.avoids(permitTo(origin.port, '127.0.0.2')), false, 'by address')
    t.equal(sender.avoids(permitTo(1)), false, 'and by port')
  },
)

t.test('node:http: a request that can not be written fails, and nothing is thrown', async t => {
  const origin = await rawOrigin(t)
  const sender = new NodeSender({ scheme: 'http', dialer: DIALER, maxHeaderBytes: 16_384, keepAliveMs: 4000 })
  t.teardown(() => sender.close())
  const recorder = new Recorder()
  sender.send({ ...REQUEST, path: '/ ' }, permitTo(origin.port), recorder, false)
  await recorder.done
  t.match(recorder.failures, [{ error: { type: 'proxy_internal_error', status: 500 }, again: 'no' }])
  const peer = await origin.accept()
  t.equal(await peer.untilEnd(), '')
})

t.test('undici: a request that can not be written fails, and nothing is thrown', async t => {
  const origin = await rawOrigin(t)
  const sender = new UndiciSender({
    scheme: 'http',
    dialer: DIALER,
    maxHeaderBytes: 16_384,
    keepAliveMs: 4000,
  })
  t.teardown(() => sender.close())
  const recorder = new Recorder()
  sender.send({ ...REQUEST, path: '' }, permitTo(origin.port), recorder, false)
  await recorder.done
  t.equal(recorder.failures.length, 1)
  const peer = await origin.accept()
  t.equal(await peer.untilEnd(), '')
})
