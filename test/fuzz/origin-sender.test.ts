/**
 * The same response bytes are given to the sender of an origin, which parses them with undici, and to our own sender. Both
 * must report the same, and refuse the same.
 */
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { permitConfigured } from '../../src/policy/permit.js'
import { Dialer } from '../../src/upstream/dial.js'
import { Http1Sender, type SenderOptions } from '../../src/upstream/http1-sender.js'
import { OriginSender } from '../../src/upstream/origin-sender.js'
import type { Sender } from '../../src/upstream/sender.js'
import { Undici } from '../../src/upstream/undici-sender.js'
import { policy } from '../kit/fakes/policy.js'
import { Recorder, REQUEST } from '../upstream/exchange-recorder.js'
import { mutatedResponse, RESPONSES } from './responses.js'

let served: Buffer = Buffer.alloc(0)
const server = createServer(socket => {
  socket.on('error', () => {})
  socket.once('data', () => socket.end(served))
})
await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
const { port } = server.address() as AddressInfo
const undici = new Undici()
t.teardown(() => {
  undici.close()
  return new Promise(resolve => server.close(resolve))
})

const options: SenderOptions = {
  scheme: 'http',
  dialer: new Dialer({
    resolver: { cached: () => undefined, resolve: async () => [] },
    inForce: { policy: policy({ rules: {} }) },
    connectTimeoutMs: 10_000,
    descriptors: NO_DESCRIPTOR_KEPT,
    now: () => performance.now(),
  }),
  headerBytes: 16_384,
  keepAliveMs: 60_000,
}
const permit = permitConfigured('test', { kind: 'name', name: 'a.test' }, port, ['127.0.0.1'])

/** What a sender reports for the served bytes; of an error only its type, as the messages differ. */
async function reported(sender: Sender): Promise<string> {
  const recorder = new Recorder()
  sender.send(REQUEST, permit, recorder, false)
  await recorder.done
  sender.close()
  const heads = recorder.heads.map(({ status, minor, reason, fields, contentLength }) =>
    JSON.stringify([status, minor, reason, fields.list, contentLength]),
  )
  const interim = recorder.told.filter(line => line.startsWith('interim'))
  const end = recorder.told.at(-1)?.replace(/^failed.*/, () => `failed ${recorder.failures[0]?.error.type}`)
  return [...interim, ...heads, recorder.content, end].join('\n')
}

async function bothReport(): Promise<{ own: string; origin: string }> {
  const own = await reported(new Http1Sender(options))
  return { own, origin: await reported(new OriginSender(options, undici)) }
}

t.test('valid responses are reported in the same way as by our own sender', async t => {
  for (const input of [...RESPONSES, Buffer.concat([Buffer.from('\r\n'), ...RESPONSES.slice(0, 1)])]) {
    served = input
    const { own, origin } = await bothReport()
    t.equal(origin, own, JSON.stringify(input.toString('latin1')))
  }
})

t.test(
  'damaged responses are reported in the same way if one of the senders accepts them (RFC 9112 §11.1)',
  async t => {
    let taken = 0
    const property = fc.asyncProperty(mutatedResponse, async input => {
      served = input
      const { own, origin } = await bothReport()
      // Both may refuse it for different reasons, and at different bytes.
      if (/\nfailed \w+$/.test(own) && /\nfailed \w+$/.test(origin)) return
      taken += 1
      if (origin !== own) throw new Error(`own sender: ${own}\norigin: ${origin}`)
    })
    const examples: [Buffer][] = ['\nHTTP/1.1 305\r\n\r\n', `HTTP/1.1 200 ${'x'.repeat(40_000)}\r\n\r\n`].map(
      text => [Buffer.from(text)],
    )
    await t.resolves(fc.assert(property, { numRuns: 1000, examples }))
    t.ok(taken > 100, `${taken} responses compared`)
  },
)
