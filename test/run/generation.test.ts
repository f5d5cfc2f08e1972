import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { BcryptThread } from '../../src/clients/bcrypt-thread.js'
import { FailedAttempts } from '../../src/clients/failed-attempts.js'
import { parseConfig } from '../../src/config/load.js'
import { Generation } from '../../src/run/generation.js'
import { LocalLedger } from '../../src/limits/ledger.js'
import { Shares } from '../../src/limits/shares.js'
import { configuredListeners } from '../../src/pipeline/create-policy.js'
import type { ConnectionExchange } from '../../src/listener/connection-exchange.js'
import { createLogger } from '../../src/observe/log.js'
import { ReadBuffers } from '../../src/tunnel/read-buffer.js'
import { Lookups } from '../../src/dns/resolve.js'
import { A_PLACE } from '../kit/fakes/no-limits.js'

function generation(t: Test): Generation {
  const passwords = new BcryptThread()
  t.teardown(() => passwords.close())
  const now = () => performance.now()
  const loaded = parseConfig('version: 1\nvia: here\n')
  return new Generation(
    loaded,
    {
      logger: createLogger('silent', { write: () => {} }),
      startId: 'test',
      lookups: new Lookups(loaded.config, {}),
      connector: undefined,
      now,
      wallClock: Date.now,
      date: () => 'Sun, 06 Nov 1994 08:49:37 GMT',
      passwords,
      attempts: new FailedAttempts(now),
      credentialKey: Buffer.alloc(32),
      buffers: new ReadBuffers(),
      tunnels: { open: () => true, countUnder: () => 0 },
      observers: [],
      shares: new Shares(loaded.config.limits, new LocalLedger(now), () => {}),
      descriptors: NO_DESCRIPTOR_KEPT,
    },
    configuredListeners(loaded.config),
  )
}

/** An exchange that asks for the server itself, and is answered when `answer` is called. */
function exchange(): { exchange: ConnectionExchange; responded: Promise<void> } {
  let done = (): void => {}
  const responded = new Promise<void>(resolve => {
    done = resolve
  })
  const fake = {
    id: 'a',
    clientAddress: '127.0.0.1',
    slot: A_PLACE,
    head: { fields: [] },
    facts: { method: 'OPTIONS', target: { form: 'asterisk' }, host: undefined },
    content: { bytes: 0, start: () => {} },
    signal: { aborted: false },
    reported: () => {},
    respond: () => {
      done()
      return { write: () => true, end: () => {} }
    },
  }
  return { exchange: fake as unknown as ConnectionExchange, responded }
}

t.test('one that nobody uses is closed as soon as it is retired', async t => {
  const made = generation(t)
  t.equal(made.config.via, 'here')
  await made.retire()
  await made.close()
})

t.test('one that is used is closed behind its last exchange', async t => {
  const made = generation(t)
  const asked = exchange()
  made.serve(asked.exchange)
  const order: string[] = []
  const retired = made.retire().then(() => order.push('closed'))
  await asked.responded.then(() => order.push('responded'))
  await retired
  t.same(order, ['responded', 'closed'])
})

t.test('one that has nothing left but tunnels keeps nothing of its rules', async t => {
  const made = generation(t)
  t.equal(made.config.via, 'here')
  const retired = made.retire()
  t.throws(() => made.config, /gone/)
  await retired
})
