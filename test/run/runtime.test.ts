import t, { type Test } from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { parseConfig } from '../../src/config/load.js'
import { Runtime } from '../../src/run/runtime.js'
import { Current, openServices } from '../../src/run/services.js'
import { configuredListeners } from '../../src/pipeline/create-policy.js'
import type { ReceivedExchange } from '../../src/pipeline/admitted-exchange.js'
import { createLogger } from '../../src/observe/log.js'
import { A_PLACE } from '../kit/fakes/no-limits.js'

async function runtime(t: Test): Promise<Runtime> {
  const loaded = parseConfig('version: 1\nvia: here\n')
  const environment = { logger: createLogger('silent', { write: () => {} }), startId: 'test' }
  const services = await openServices(loaded, environment, new Current(), 'test')
  t.teardown(async () => {
    services.metrics.close()
    await services.passwords.close()
  })
  return Runtime.open(loaded, services, configuredListeners(loaded.config))
}

/** An exchange for the server itself, which is answered when `answer` is called. */
function exchange(): { exchange: ReceivedExchange; responded: Promise<void> } {
  let done = (): void => {}
  const responded = new Promise<void>(resolve => {
    done = resolve
  })
  const fake = {
    id: 'a',
    clientAddress: '127.0.0.1',
    slot: A_PLACE,
    head: { fields: FieldSection.of([]) },
    facts: { method: 'OPTIONS', target: { form: 'asterisk' }, host: undefined },
    content: { bytes: 0, start: () => {} },
    signal: { aborted: false },
    reported: () => {},
    respond: () => {
      done()
      return { write: () => true, end: () => {} }
    },
  }
  return { exchange: fake as unknown as ReceivedExchange, responded }
}

t.test('an unused runtime is closed as soon as it is retired', async t => {
  const made = await runtime(t)
  t.equal(made.config.via, 'here')
  await made.retire()
  await made.close()
})

t.test('a runtime in use is closed after its last exchange', async t => {
  const made = await runtime(t)
  const asked = exchange()
  made.settings.serve(asked.exchange)
  const order: string[] = []
  const retired = made.retire().then(() => order.push('closed'))
  await asked.responded.then(() => order.push('responded'))
  await retired
  t.same(order, ['responded', 'closed'])
})

t.test('a runtime with nothing but tunnels releases its rules', async t => {
  const made = await runtime(t)
  t.equal(made.config.via, 'here')
  const retired = made.retire()
  t.throws(() => made.config, /released/)
  await retired
})
