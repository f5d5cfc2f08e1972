/** The sender: on which connection a request is sent, and how long connections are kept (RFC 9112 §9.3). */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { type Permit, permitConfigured } from '../../src/policy/permit.js'
import { Dialer } from '../../src/upstream/dial.js'
import { Http1Sender, type SenderOptions } from '../../src/upstream/http1-sender.js'
import type { UpstreamRequest } from '../../src/upstream/sender.js'
import { policy } from '../kit/fakes/policy.js'
import { dialled } from '../kit/fakes/dialled.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { GivenContent, Recorder, REQUEST } from './exchange-recorder.js'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const OPTIONS = {
  resolver: { cached: () => undefined, resolve: async () => [] },
  inForce: { policy: policy({ rules: {} }) },
  connectTimeoutMs: 10_000,
  descriptors: NO_DESCRIPTOR_KEPT,
  now: () => performance.now(),
}

function permitTo(port: number, address = '127.0.0.1', host = 'a.test'): Permit {
  return permitConfigured('test', { kind: 'name', name: host }, port, [address])
}

/** A sender, an origin, and functions to send a request and its response. */
async function setup(t: Test, options: Partial<SenderOptions> = {}) {
  const origin = await rawOrigin(t)
  const sender = new Http1Sender({
    scheme: 'http',
    dialer: new Dialer(OPTIONS),
    headerBytes: 16_384,
    keepAliveMs: 60_000,
    ...options,
  })
  t.teardown(() => sender.close())
  const send = (request: Partial<UpstreamRequest> = {}, fresh = false, permit = permitTo(origin.port)) => {
    const recorder = new Recorder()
    const cancel = sender.send({ ...REQUEST, ...request }, permit, recorder, fresh)
    return { recorder, cancel }
  }
  /** Sends one request and its response on a new connection, which is idle then. */
  const open = async (permit?: Permit): Promise<RawPeer> => {
    const { recorder } = send({}, true, permit)
    const peer = await origin.accept()
    await answer(peer)
    await recorder.done
    return peer
  }
  return { origin, sender, send, open }
}

async function answer(peer: RawPeer, response = OK): Promise<void> {
  await peer.until('\r\n\r\n')
  peer.write(response)
}

t.test('a connection is reused unless a new one is requested', async t => {
  const { origin, send, open } = await setup(t)
  const peer = await open()
  const fresh = send({}, true)
  const other = await origin.accept()
  await answer(other)
  await fresh.recorder.done
  t.same(fresh.recorder.told, ['connected', 'sent', 'responded 200', 'data 2', 'ended'])
  for (const expected of [other, other]) {
    const { recorder } = send()
    await answer(expected)
    await recorder.done
    t.same(recorder.told, ['reused', 'sent', 'responded 200', 'data 2', 'ended'])
  }
  t.equal(peer.received, '')
  t.equal(origin.accepted, 2)
})

t.test('a connection is idle before the end of its response is reported', async t => {
  const { origin, send } = await setup(t)
  const first = send()
  const second = new Promise<Recorder>(resolve => {
    first.recorder.onTold = line => line === 'ended' && resolve(send().recorder)
  })
  const peer = await origin.accept()
  await answer(peer)
  const recorder = await second
  await answer(peer)
  await recorder.done
  t.equal(recorder.told[0], 'reused')
})

t.test('a connection that carries a request is not shared', async t => {
  const { origin, send } = await setup(t)
  const first = send()
  const one = await origin.accept()
  const second = send()
  const two = await origin.accept()
  await answer(two)
  await answer(one)
  await Promise.all([first.recorder.done, second.recorder.done])
  t.equal(origin.accepted, 2)
})

t.test('a connection is reused only for its authority and for addresses in the permit', async t => {
  const { origin, send, open } = await setup(t)
  await open(permitTo(origin.port, '127.0.0.1', 'a.test'))
  const { port } = origin
  for (const permit of [permitTo(port, '127.0.0.1', 'b.test'), permitTo(port, '127.0.0.2', 'a.test')]) {
    const { recorder, cancel } = send({}, false, permit)
    await untilStable(() => recorder.told.length, 50)
    t.notMatch(recorder.told, ['reused'])
    cancel()
  }
  const { recorder } = send({}, false, permitTo(port))
  await untilStable(() => recorder.told.length, 50)
  t.match(recorder.told, ['reused'])
})

t.test('a destroyed connection is not reused, even before it has emitted close', async t => {
  const sockets: ReturnType<typeof connect>[] = []
  const dialer = new Dialer({
    ...OPTIONS,
    connector: options => {
      const socket = connect(options)
      sockets.push(socket)
      return socket
    },
  })
  const { origin, send, open } = await setup(t, { dialer })
  await open()
  sockets[0]?.destroy()
  const { recorder } = send()
  await answer(await origin.accept())
  await recorder.done
  t.equal(recorder.told[0], 'connected')
})

t.test(
  'a request that must not be sent twice notices the end of an idle connection before it is sent (RFC 9112 §9.3.1)',
  async t => {
    for (const request of [
      { method: 'POST' },
      { method: 'PATCH', content: new GivenContent(1, 'x') },
      { method: 'PUT', content: new GivenContent(1, 'x') },
    ]) {
      const { origin, send, open } = await setup(t)
      const peer = await open()
      // It is sent at once, and the sender gets no turn of the event loop to notice it before the request.
      peer.end()
      const { recorder } = send(request)
      t.same(recorder.told, [])
      const fresh = await origin.accept()
      await answer(fresh)
      await recorder.done
      t.equal(recorder.told[0], 'connected', request.method)
      t.equal(peer.received, '')
    }
  },
)

t.test('it can be cancelled while the idle connection is watched, which returns to the pool', async t => {
  const { origin, send, open } = await setup(t)
  const peer = await open()
  const waiting = send({ method: 'POST' })
  const other = send()
  const second = await origin.accept()
  waiting.cancel()
  waiting.cancel()
  const third = send()
  await answer(peer)
  await third.recorder.done
  t.same([waiting.recorder.told, third.recorder.told[0]], [[], 'reused'])
  await answer(second)
  await other.recorder.done
})

t.test('a request can be cancelled in any event, also while it is being sent', async t => {
  for (const method of ['GET', 'POST']) {
    for (const isOpen of [true, false]) {
      for (const when of ['connected', 'sent', 'content'] as const) {
        const { origin, send, open } = await setup(t)
        const peer = isOpen ? await open() : undefined
        const content = new GivenContent(3)
        let cancel = (): void => {}
        let isCancelled = false
        const start = content.start.bind(content)
        content.start = consumer => {
          start(consumer)
          if (when === 'content') {
            isCancelled = true
            cancel()
          }
        }
        const recorder = new Recorder()
        recorder.onTold = line => {
          if (when === 'connected' ? /connected|reused/.test(line) : line === when) {
            isCancelled = true
            cancel()
          }
        }
        const request = when === 'content' ? { method: 'PUT', content } : { method }
        const sent = send(request)
        // A request whose event came before `send` returned is cancelled right after that.
        cancel = sent.cancel
        sent.recorder.onTold = recorder.onTold
        if (sent.recorder.told.length > 0) cancel()
        const end = peer ?? (await origin.accept())
        await end.untilEnd()
        await turns()
        t.ok(isCancelled || sent.recorder.told.length > 0, `${method} ${isOpen} ${when}`)
        t.notMatch(sent.recorder.told, /responded|ended|failed/)
        const next = send()
        await answer(await origin.accept())
        await next.recorder.done
        t.equal(next.recorder.told[0], 'connected', 'it is not given back')
      }
    }
  }
})

t.test('a request that is cancelled while connecting leaves no socket', async t => {
  const { connector, sockets } = dialled()
  const { send } = await setup(t, { dialer: new Dialer({ ...OPTIONS, connector, now: () => 0 }) })
  const { recorder, cancel } = send()
  cancel()
  t.equal(sockets[0]?.destroyed, true)
  await turns(1)
  t.same(recorder.told, [])
})

t.test('an idle connection is closed after the idle timeout', async t => {
  const { open } = await setup(t, { keepAliveMs: 20 })
  t.equal(await (await open()).untilEnd(), '')
})

t.test('closing the sender closes all connections, idle, busy or being dialled', async t => {
  const { origin, sender, send, open } = await setup(t)
  const idle = await open()
  const busy = send({}, true)
  const other = await origin.accept()
  await other.until('\r\n\r\n')
  const late = send({}, true)
  sender.close()
  await Promise.all([busy.recorder.done, late.recorder.done])
  t.match(busy.recorder.failures, [{ retry: 'never', error: { type: 'connection_terminated' } }])
  t.match(late.recorder.failures, [{ retry: 'never', error: { type: 'connection_terminated' } }])
  await Promise.all([idle.untilEnd(), other.untilEnd(), (await origin.accept()).untilEnd()])
})

t.test('a refused connection fails once, and the request may not be sent again', async t => {
  const { send } = await setup(t)
  const { recorder } = send({}, false, permitTo(1))
  await recorder.done
  t.match(recorder.failures, [{ error: { type: 'connection_refused' }, retry: 'never' }])
  t.same(recorder.told, ['failed never'])
})

t.test('a method is sent in its own case (RFC 9110 §9.1)', async t => {
  const { origin, send } = await setup(t)
  for (const method of ['Report', 'propFind', 'M-SEARCH']) {
    const { recorder } = send({ method }, true)
    const peer: RawPeer = await origin.accept()
    t.match(await peer.until('\r\n\r\n'), new RegExp(`^${method} / HTTP/1\\.1\r\n`))
    peer.write(OK)
    await recorder.done
  }
})

t.test('a response may have at most two thousand fields', async t => {
  const { origin, send } = await setup(t)
  for (const [count, status] of [
    [2000, 'responded 204'],
    [2001, 'failed never'],
  ] as const) {
    const { recorder } = send({}, true)
    await answer(await origin.accept(), `HTTP/1.1 204 X\r\n${'A:b\r\n'.repeat(count)}\r\n`)
    await recorder.done
    t.ok(recorder.told.includes(status), status)
  }
})
