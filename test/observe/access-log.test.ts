import { pino } from 'pino'
import t from 'tap'
import { malformed, ProxyError } from '../../src/errors.js'
import { AccessLog, withoutQuery } from '../../src/observe/access-log.js'
import { createLogger, type LogLevel } from '../../src/observe/log.js'
import { type CacheOutcome, Outcome } from '../../src/outcome.js'
import type { DecisionEvent, Subject } from '../../src/pipeline/exchange-observer.js'

/** A new one, as what the log says of one is made once. */
const subject = (other: Partial<Subject> = {}): Subject => ({
  id: 'a-1',
  client: 'ci',
  clientAddress: '10.0.0.1',
  kind: 'forward',
  method: 'GET',
  host: 'a.test',
  port: 80,
  path: '/a?b',
  ...other,
})
const OUTCOME: Outcome = {
  handler: 'forward',
  status: 200,
  closeReason: 'complete',
  bytesUp: 0,
  bytesDown: 7,
}

function accessLog(level: LogLevel = 'info', query: 'omit' | 'include' = 'omit') {
  const lines: string[] = []
  const logger = createLogger(level, { write: line => void lines.push(line) })
  return { lines, logger, log: new AccessLog({ logger, query, wallClock: () => 0 }) }
}

const TIME = '"time":"1970-01-01T00:00:00.000Z","schema":1'
const IDENTITY = '"id":"a-1","client":"ci","client_address":"10.0.0.1","kind":"forward","method":"GET"'

t.test('a decision is one line, its keys in a fixed order', async t => {
  const { log, lines } = accessLog()
  log.decision(subject(), { decision: 'allow', rule: 'web', dnsMs: 1.23456 }, 'abc')
  log.decision(subject(), { decision: 'deny', reason: 'no_rule' }, 'abc')
  log.decision(subject(), { decision: 'would_deny', reason: 'no_rule', wouldDeny: 'no rule' }, 'abc')
  const target = '"host":"a.test","port":80,"path":"/a"'
  t.strictSame(lines, [
    `{"level":"info",${TIME},"event":"decision",${IDENTITY},${target},"decision":"allow","rule":"web","dns_ms":1.235,"config_hash":"abc"}\n`,
    `{"level":"warn",${TIME},"event":"decision",${IDENTITY},${target},"decision":"deny","reason":"no_rule","config_hash":"abc"}\n`,
    `{"level":"warn",${TIME},"event":"decision",${IDENTITY},${target},"decision":"would_deny","reason":"no_rule","would_deny":"no rule","config_hash":"abc"}\n`,
  ])
})

t.test('so is a close; what is not known is left out', async t => {
  const { log, lines } = accessLog()
  const bare: Subject = {
    id: 'a-1',
    client: undefined,
    clientAddress: '::1',
    kind: 'server',
    method: 'OPTIONS',
  }
  log.close(bare, OUTCOME, 12)
  log.close(
    subject(),
    {
      ...OUTCOME,
      status: 502,
      closeReason: 'failed',
      address: '[::1]:80',
      connectMs: 0.0004,
      firstByteMs: 2,
      error: new ProxyError('connection_refused', 'x'),
    },
    0.0005,
  )
  t.strictSame(lines, [
    `{"level":"info",${TIME},"event":"close","id":"a-1","client_address":"::1","kind":"server","method":"OPTIONS","handler":"forward","status":200,"close_reason":"complete","bytes_up":0,"bytes_down":7,"duration_ms":12}\n`,
    `{"level":"warn",${TIME},"event":"close",${IDENTITY},"host":"a.test","port":80,"path":"/a","handler":"forward","status":502,"close_reason":"failed","error":"connection_refused","reason":"connection_refused","detail":"x.","address":"[::1]:80","connect_ms":0,"first_byte_ms":2,"bytes_up":0,"bytes_down":7,"duration_ms":0.001}\n`,
  ])
})

t.test('who has shown who they are stands behind the client, in both events', async t => {
  const { log, lines } = accessLog()
  const known = subject({ user: 'alice' })
  log.decision(known, { decision: 'allow' }, 'abc')
  log.close(known, OUTCOME, 0)
  for (const line of lines)
    t.match(line, '"id":"a-1","client":"ci","user":"alice","client_address":"10.0.0.1"')
  t.equal(lines.length, 2)
})

t.test('a refusal has the sentence that the client got, and a failure that and its code', async t => {
  const { log, lines } = accessLog()
  const last = () => {
    const { detail, code } = JSON.parse(lines.pop() ?? '')
    return [detail, code]
  }
  const refused = malformed('bad Content-Length')
  const deny = { decision: 'deny', reason: 'malformed', refusal: refused } as const
  log.decision(subject(), deny, 'abc')
  t.same(last(), ['bad Content-Length.', undefined])
  log.close(subject(), Outcome.refused('refusal', refused), 0, deny)
  t.same(last(), [undefined, undefined], 'its decision has it')
  const refusal = { message: 'no rule', detail: 'No rule names it.', address: undefined }
  log.decision(subject(), { decision: 'would_deny', reason: 'no_rule', wouldDeny: 'no rule', refusal }, 'abc')
  t.same(last(), ['No rule names it.', undefined])
  const cause = Object.assign(new Error('x'), { code: 'EAI_AGAIN' })
  const failed = new ProxyError('dns_error', 'DNS failed', { detail: 'No answer (EAI_AGAIN).', cause })
  for (const error of [failed, failed.with({ status: 502, cause: failed })]) {
    log.close(subject(), Outcome.failed('forward', error), 0, { decision: 'allow' })
    t.same(last(), ['No answer (EAI_AGAIN).', 'EAI_AGAIN'])
  }
})

t.test('what the cache has made of a request is told, and why nothing was stored', async t => {
  const { log, lines } = accessLog()
  const cached = (cache: CacheOutcome) => {
    log.close(subject(), { ...OUTCOME, cache }, 1)
    const { cache: result, cache_stored, cache_detail } = JSON.parse(lines.pop() ?? '')
    return { result, cache_stored, cache_detail }
  }
  t.same(cached({ result: 'hit', stored: false }), {
    result: 'hit',
    cache_stored: undefined,
    cache_detail: undefined,
  })
  t.match(cached({ result: 'uri_miss', stored: true }), { result: 'uri_miss', cache_stored: true })
  t.match(cached({ result: 'uri_miss', stored: false, detail: 'set-cookie' }), { cache_detail: 'set-cookie' })
  log.close(subject(), { ...OUTCOME, address: '[::1]:80', cache: { result: 'stale', stored: true } }, 1)
  t.match(lines[0], '"address":"[::1]:80","cache":"stale","cache_stored":true,"bytes_up"')
})

t.test(
  'a failure is a warning, and so is a request that broke off; what its decision has told is none',
  async t => {
    const { log, lines } = accessLog('warn')
    const levels = (outcome: Outcome, decision: DecisionEvent['decision'] = 'allow') => {
      log.close(subject(), outcome, 0, { decision })
      return lines.splice(0).map(line => JSON.parse(line).level)
    }
    const refused = new ProxyError('connection_refused', 'x')
    t.same(levels(Outcome.failed('forward', refused)), ['warn'])
    t.same(levels(Outcome.failed('forward', refused), 'would_deny'), ['warn'])
    t.same(levels(Outcome.refused('origin', new ProxyError('proxy_internal_response', 'x'))), ['warn'])
    const late = malformed('no content in time', 408)
    t.same(levels(Outcome.aborted('forward', { kind: 'failed', closeReason: 'failed', error: late })), [
      'warn',
    ])
    const measured = { bytesUp: 0, bytesDown: 7 }
    const half = new ProxyError('http_response_incomplete', 'x')
    t.same(levels(Outcome.incomplete('forward', 200, measured, 'upstream_incomplete', half)), ['warn'])
    t.same(levels(Outcome.refused('refusal', malformed('x')), 'deny'), [])
    t.same(levels(Outcome.refused('origin', new ProxyError('destination_not_found', 'x'))), [])
    t.same(levels(Outcome.aborted('forward', { kind: 'gone', closeReason: 'client_gone' })), [])
    t.same(levels(OUTCOME), [])
  },
)

t.test('a tunnel cut for its server name is a warning, and what was sent is told in ASCII', async t => {
  const { log, lines } = accessLog('warn')
  const cut = { ...OUTCOME, handler: 'tunnel', closeReason: 'server_name' } as const
  log.close(subject(), { ...cut, serverName: { fault: 'sni_mismatch', sent: 'b\x1b\x9b\n"\xff' } }, 0)
  log.close(subject(), { ...cut, serverName: { fault: 'sni_missing' } }, 0)
  const close = '"handler":"tunnel","status":200,"close_reason":"server_name"'
  const line = `{"level":"warn",${TIME},"event":"close",${IDENTITY},"host":"a.test","port":80,"path":"/a",${close}`
  const rest = '"bytes_up":0,"bytes_down":7,"duration_ms":0}\n'
  t.strictSame(lines, [
    `${line},"reason":"sni_mismatch","detail":"The tunnel was cut for its TLS server name \\"b???\\"?\\": sni is verify, in connect or in its rule.","server_name":"b\\u001b\\u009b\\n\\"\\u00ff",${rest}`,
    `${line},"reason":"sni_missing","detail":"The tunnel was cut for its TLS server name: sni is verify, in connect or in its rule.",${rest}`,
  ])
})

t.test('the line begins like those of the logger itself', async t => {
  const { log, logger, lines } = accessLog()
  log.close(subject(), OUTCOME, 0)
  logger.info({ event: 'x' })
  const [own = '', other = ''] = lines
  const keys = (line: string) => Object.keys(JSON.parse(line)).slice(0, 4)
  t.strictSame(keys(own), ['level', 'time', 'schema', 'event'])
  t.strictSame(keys(own), keys(other))
})

t.test('what follows ? or # is left out unless asked for', async t => {
  const table: [string | undefined, string | undefined][] = [
    ['/', '/'],
    ['/a?b?c', '/a'],
    ['/a#b?c', '/a'],
    ['/?', '/'],
    ['?b', ''],
    [undefined, undefined],
  ]
  for (const [path, omitted] of table) {
    for (const [query, expected] of [
      ['omit', omitted],
      ['include', path],
    ] as const) {
      const { log, lines } = accessLog('info', query)
      log.close(subject({ path }), OUTCOME, 0)
      t.equal(JSON.parse(lines[0] ?? '').path, expected, `${path} ${query}`)
    }
  }
})

t.test('at level warn only refusals are written, above it nothing', async t => {
  const table: [LogLevel, number][] = [
    ['trace', 3],
    ['debug', 3],
    ['info', 3],
    ['warn', 1],
    ['error', 0],
    ['silent', 0],
  ]
  for (const [level, count] of table) {
    const { log, lines } = accessLog(level)
    log.decision(subject(), { decision: 'allow' }, '')
    log.decision(subject(), { decision: 'deny' }, '')
    log.close(subject(), OUTCOME, 0)
    t.equal(lines.length, count, level)
    if (count === 1) t.match(lines[0], '"decision":"deny"')
  }
})

t.test('no text that a client chose breaks out of its string', async t => {
  const { log, lines } = accessLog()
  const hostile = '"},{"\\\n\r\x00\x1b[2J\x7f\x9b\u2028é'
  log.close(subject({ user: hostile, method: hostile, host: hostile, path: hostile }), OUTCOME, 0)
  t.match(lines[0], /^\{[\x20-\x7e]*\}\n$/)
  const { user, method, host, path } = JSON.parse(lines[0] ?? '')
  t.strictSame([user, method, host, path], [hostile, hostile, hostile, hostile])
})

t.test('takes any pino logger', async t => {
  const lines: string[] = []
  const logger = pino({ level: 'info' }, { write: line => void lines.push(line) })
  new AccessLog({ logger, query: 'omit', wallClock: () => 0 }).close(subject(), OUTCOME, 0)
  t.equal(lines.length, 1)
})

t.test('the path stands in both events of one subject as it was asked for the first', async t => {
  const { log, lines } = accessLog()
  const one = subject()
  log.decision(one, { decision: 'allow' }, 'abc')
  log.close(one, OUTCOME, 0)
  for (const line of lines) t.match(line, `${IDENTITY},"host":"a.test","port":80,"path":"/a"`)
  t.equal(lines.length, 2)
})

t.test(
  'a query begins at the first question mark, and what else may hold secrets at a number sign',
  async t => {
    for (const [target, path] of [
      ['/', '/'],
      ['/a?', '/a'],
      ['/a?b=1?c#d', '/a'],
      ['/a#b?c', '/a'],
      ['?a', ''],
      ['', ''],
      ['*', '*'],
    ] as const) {
      t.equal(withoutQuery(target), path, target)
    }
  },
)
