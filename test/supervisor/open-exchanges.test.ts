/** The open exchanges of a worker, read from its log. */
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { AccessLog } from '../../src/observe/access-log.js'
import { createLogger, type LogLevel } from '../../src/observe/log.js'
import { Outcome } from '../../src/outcome.js'
import type { DecisionEvent, Subject } from '../../src/pipeline/exchange-observer.js'
import { OpenExchanges } from '../../src/supervisor/open-exchanges.js'

const ALLOW: DecisionEvent = { decision: 'allow', rule: 'web' }
const DONE = Outcome.complete('tunnel', 200, { bytesUp: 1, bytesDown: 2 })
const REFUSED = new ProxyError('http_request_denied', 'no')
const ALL = { hash: 'all', config: { log: { level: 'info' } } }

/** A worker's log at a level, and the open exchanges read from it. */
function worker(level: LogLevel = 'info') {
  const exchanges = new OpenExchanges()
  let lines = ''
  const logger = createLogger(level, {
    write: line => {
      lines += line
    },
  })
  const log = new AccessLog({ logger, query: 'omit', wallClock: () => 1000 })
  const subject = (id: string, other: Partial<Subject> = {}): Subject => ({
    id,
    client: 'ci',
    clientAddress: '10.0.0.1',
    kind: 'connect',
    method: 'CONNECT',
    host: 'a.test',
    port: 443,
    ...other,
  })
  return {
    exchanges,
    logger,
    begin: (id: string, event = ALLOW, other: Partial<Subject> = {}) =>
      log.decision(subject(id, other), event, 'all'),
    end: (id: string, outcome = DONE) => log.close(subject(id), outcome, 1, ALLOW),
    /** A piece of the log arrives. */
    pass: () => {
      exchanges.read(lines)
      lines = ''
    },
  }
}

t.test('exchanges with a decision and no close are open, in whatever pieces the log arrives', async t => {
  const { exchanges, begin, end, pass } = worker()
  begin('x-1')
  begin('x-2')
  end('x-1')
  begin('x-10')
  pass()
  t.equal(exchanges.size, 2)
  begin('x-3')
  end('x-2')
  end('x-none')
  pass()
  t.equal(exchanges.size, 2)
  t.same(
    exchanges.end(1500).map(({ id }) => id),
    ['x-10', 'x-3'],
  )
  t.equal(exchanges.size, 0)
  t.same(exchanges.end(1500), [])
})

t.test('the close of a lost exchange identifies it, and contains nothing unknown', async t => {
  const { exchanges, begin, pass } = worker()
  begin('x-1', ALLOW, {
    kind: 'forward',
    method: 'GET',
    port: 80,
    path: '/\u{1f4a9}"\\?secret',
    user: 'älice',
  })
  pass()
  t.same(exchanges.end(3500), [
    {
      event: 'close',
      id: 'x-1',
      client: 'ci',
      user: 'älice',
      client_address: '10.0.0.1',
      kind: 'forward',
      method: 'GET',
      host: 'a.test',
      port: 80,
      path: '/\u{1f4a9}"\\',
      close_reason: 'worker_exited',
      duration_ms: 2500,
    },
  ])
})

t.test('a refused exchange is not open, and other events are ignored', async t => {
  const { exchanges, logger, begin, pass } = worker()
  begin('x-1', {
    decision: 'deny',
    reason: 'no_rule',
    refusal: { message: 'no', detail: undefined, address: undefined },
  })
  logger.info({ event: 'listening', id: 'x-2' })
  logger.warn({ event: 'x', text: ',"event":"decision","id":"x-3' })
  logger.error({ event: 'store_unreadable' })
  pass()
  t.equal(exchanges.size, 0)
  const cut = worker()
  cut.begin('x-1')
  cut.end('x-1', { ...DONE, closeReason: 'server_name', serverName: { fault: 'sni_missing' } })
  cut.begin('x-2')
  cut.end('x-2', Outcome.failed('tunnel', REFUSED))
  cut.pass()
  t.equal(cut.exchanges.size, 0)
})

t.test('an observed denial is open if its close will be logged', async t => {
  const observed: DecisionEvent = { decision: 'would_deny', reason: 'no_rule', wouldDeny: 'no' }
  for (const [level, size] of [
    ['info', 1],
    ['debug', 1],
    ['warn', 0],
  ] as const) {
    const { exchanges, begin, pass } = worker(level)
    exchanges.serves({ ...ALL, config: { log: { level } } })
    begin('x-1', observed)
    begin('x-2', { ...ALLOW, rule: undefined })
    pass()
    t.equal(exchanges.size, level === 'warn' ? 0 : size + 1, level)
  }
})

t.test('after lost lines it is unknown what is open', async t => {
  const { exchanges, logger, begin, pass } = worker()
  begin('x-1')
  pass()
  begin('x-2')
  logger.error({ event: 'log_lost', lines: 3 })
  begin('x-3')
  pass()
  t.same(
    exchanges.end(1000).map(({ id }) => id),
    ['x-3'],
  )
})
