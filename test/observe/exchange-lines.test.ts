/** The lines of exchanges for people. */
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { AccessLog } from '../../src/observe/access-log.js'
import { ExchangeLines } from '../../src/observe/exchange-lines.js'
import { createLog, createLogger } from '../../src/observe/log.js'
import { type CloseReason, Outcome } from '../../src/outcome.js'
import type { DecisionEvent, Subject } from '../../src/pipeline/exchange-observer.js'

const CONNECT: Subject = {
  id: 'a-1',
  client: 'private',
  clientAddress: '127.0.0.1',
  kind: 'connect',
  method: 'CONNECT',
  host: 'example.com',
  port: 443,
}
const GET: Subject = { ...CONNECT, id: 'a-2', kind: 'forward', method: 'GET', port: 80, path: '/a?secret' }
const ALLOW: DecisionEvent = { decision: 'allow', rule: 'web' }

function people(color = false) {
  const late: string[] = []
  const timers: (() => void)[] = []
  const lines = new ExchangeLines({
    color,
    write: line => void late.push(line),
    later: work => void timers.push(work),
  })
  const said: string[] = []
  const stream = { write: (line: string) => void said.push(lines.format(JSON.parse(line))) }
  const log = new AccessLog({
    logger: createLogger('info', stream),
    query: 'omit',
    wallClock: () => new Date(2026, 0, 2, 8, 2, 57, 7).getTime(),
  })
  const decision = (subject: Subject, event: DecisionEvent) => {
    log.decision(subject, event, 'abc')
    return said.pop()
  }
  const close = (subject: Subject, outcome: Outcome, durationMs: number, decided = ALLOW) => {
    log.close(subject, outcome, durationMs, decided)
    return said.pop()
  }
  return { decision, close, late, timers }
}

const deny = (reason: string, message: string, detail?: string): DecisionEvent => ({
  decision: 'deny',
  reason,
  refusal: { message, detail, address: undefined },
})

t.test('a refusal is one line, at once, with its reason and what is wrong', async t => {
  const { decision, close } = people()
  const port = deny('port', 'x', 'connect.ports allows 443 only; add 8443 to connect.ports, or elsewhere.')
  t.equal(
    decision({ ...CONNECT, port: 8443 }, port),
    '[08:02:57.007] DENY  CONNECT example.com:8443                     port: connect.ports allows 443 only  (127.0.0.1)\n',
  )
  const error = new ProxyError('http_request_denied', 'x', { reason: 'port' })
  t.equal(close(CONNECT, Outcome.refused('refusal', error), 1, port), '', 'its end says no more')
  t.match(
    decision(GET, deny('no_rule', 'x', 'No rule names a.test. Add it.')),
    'no_rule: No rule names a.test  (',
  )
  t.match(decision(GET, deny('malformed', 'bad Content-Length')), 'malformed: bad Content-Length  (')
  t.match(decision({ ...GET, user: 'alice' }, deny('port', 'x')), 'port: x  (alice 127.0.0.1)\n')
  t.match(
    decision(GET, { ...deny('no_rule', 'x', 'No rule names it.'), decision: 'would_deny' }),
    /DENY\? GET {5}http:\/\/example\.com\/a +no_rule: No rule names it; it passes, as mode is observe {2}\(/,
  )
})

t.test('what passes is one line, at its end, with status, bytes and duration', async t => {
  const { decision, close } = people()
  t.equal(decision(CONNECT, ALLOW), '')
  const outcome = Outcome.complete('tunnel', 200, { bytesUp: 517, bytesDown: 34_120 })
  t.equal(
    close(CONNECT, outcome, 1312.3),
    '[08:02:57.007] ALLOW CONNECT example.com:443                      200     517 B up   34.1 kB down     1.3 s  (127.0.0.1)\n',
  )
  t.equal(decision(GET, ALLOW), '')
  const measured = { bytesUp: 0, bytesDown: 999_950, cache: { result: 'hit', stored: false } } as const
  t.equal(
    close(GET, Outcome.complete('forward', 404, measured), 12.4),
    '[08:02:57.007] ALLOW GET     http://example.com/a                 404       0 B up    1.0 MB down     12 ms  hit  (127.0.0.1)\n',
  )
  const reason = (closeReason: CloseReason) =>
    close(CONNECT, Outcome.complete('tunnel', 200, { bytesUp: 1, bytesDown: 2 }, closeReason), 3_599_999)
  t.match(reason('idle'), '1 h 0 min  idle  (')
})

t.test('columns stay below each other, and durations and bytes are short', async t => {
  const { close } = people()
  const table: [number, number, string, string][] = [
    [0, 0, '    0 B down', '0 ms'],
    [999, 999.4, '  999 B down', '999 ms'],
    [1000, 999.6, '1.0 kB down', '1.0 s'],
    [99_949, 59_949, '99.9 kB down', '59.9 s'],
    [100_000, 60_000, '100 kB down', '1 min 0 s'],
    [1e9, 3_600_000, '1.0 GB down', '1 h 0 min'],
    [5e15, 90_000_000, '5000 TB down', '25 h 0 min'],
  ]
  for (const [bytesDown, ms, bytes, time] of table) {
    const line = close(CONNECT, Outcome.complete('tunnel', 200, { bytesUp: 0, bytesDown }), ms) ?? ''
    t.match(line, bytes)
    t.match(line, ` ${time}  (127`)
  }
})

t.test('what failed says why, with the code; and who went away is no refusal', async t => {
  const { close } = people()
  const cause = Object.assign(new Error('x'), { code: 'ECONNREFUSED' })
  const error = new ProxyError('connection_refused', 'connection refused: 1.1.1.1:443', { cause })
  t.match(
    close(CONNECT, Outcome.failed('tunnel', error), 1),
    /FAIL {2}CONNECT .* 502 .*connection_refused: connection refused: 1\.1\.1\.1:443 \(ECONNREFUSED\) {2}\(/,
  )
  const missing = new ProxyError('http_request_error', 'no such resource', {
    status: 404,
    reason: 'not_found',
  })
  t.match(
    close(GET, Outcome.refused('origin', missing), 1),
    /ALLOW GET .* 404 .*not_found: no such resource {2}\(/,
  )
  const gone = Outcome.aborted('forward', { kind: 'gone', closeReason: 'client_gone' })
  t.match(close(GET, gone, 1), /GONE {2}GET .* --- .*client_gone {2}\(/)
  const cut: Outcome = {
    ...Outcome.complete('tunnel', 200, { bytesUp: 0, bytesDown: 0 }, 'server_name'),
    serverName: { fault: 'sni_mismatch', sent: 'b.test' },
  }
  t.match(
    close(CONNECT, cut, 1),
    /DENY {2}CONNECT .* sni_mismatch: The tunnel was cut for its TLS server name "b/,
  )
})

t.test('what was lost with its worker has failed, and shows nothing that nobody knows', async t => {
  const lines = new ExchangeLines({ color: false, write: () => {}, later: () => {} })
  const event = {
    event: 'close',
    time: '2026-01-01T00:00:00.000Z',
    kind: 'connect',
    method: 'CONNECT',
    host: 'a.test',
  }
  const lost = {
    ...event,
    port: 443,
    client_address: '::1',
    close_reason: 'worker_exited',
    duration_ms: 5000,
  }
  t.match(
    lines.format(lost),
    /FAIL {2}CONNECT a\.test:443 +--- +\? up +\? down +5\.0 s {2}worker_exited {2}\(::1\)\n$/,
  )
})

t.test('what is not over after a second is told of once as open', async t => {
  const { decision, close, late, timers } = people()
  const fire = () => timers.shift()?.()
  decision(CONNECT, ALLOW)
  decision(GET, ALLOW)
  t.equal(timers.length, 1)
  fire()
  close(GET, Outcome.complete('forward', 200, { bytesUp: 0, bytesDown: 0 }), 1)
  t.same(late, [])
  fire()
  t.equal(late.length, 1)
  t.match(late[0], /^\[[\d:.]+\] OPEN {2}CONNECT example\.com:443 +not over yet {2}\(127\.0\.0\.1\)\n$/)
  t.equal(timers.length, 0, 'nothing is left to wait for')
  t.match(close(CONNECT, Outcome.complete('tunnel', 200, { bytesUp: 0, bytesDown: 0 }), 1), 'ALLOW CONNECT')
  decision(CONNECT, ALLOW)
  t.equal(timers.length, 1)
})

t.test('targets are written as they were asked for', async t => {
  const { decision } = people()
  const table: [Partial<Subject>, string][] = [
    [{ host: '::1' }, '[::1]:443'],
    [{ kind: 'forward', path: '/' }, 'http://example.com:443/'],
    [{ kind: 'forward', port: 80, path: '/a' }, 'http://example.com/a'],
    [{ kind: 'origin', path: '/a' }, 'example.com/a'],
    [{ kind: 'server', host: undefined }, '*'],
    [{ kind: 'invalid', host: undefined, path: '' }, '-'],
  ]
  for (const [subject, target] of table) {
    const line = decision({ ...CONNECT, method: 'X', ...subject }, deny('a', 'b')) ?? ''
    t.equal(line.slice(29, 29 + 36).trimEnd(), target)
  }
})

t.test('colour: a refusal is red as a whole, of the others the word alone', async t => {
  const { decision, close } = people(true)
  t.match(
    decision(CONNECT, deny('a', 'b')),
    /^\[[\d:.]+\] \x1b\[31mDENY {2}CONNECT .*\(127\.0\.0\.1\)\x1b\[39m\n$/,
  )
  const outcome = Outcome.complete('tunnel', 200, { bytesUp: 0, bytesDown: 0 })
  t.match(close(CONNECT, outcome, 1), /^\[[\d:.]+\] \x1b\[32mALLOW\x1b\[39m CONNECT [^\x1b]*\n$/)
})

t.test('no text that a client chose steers the terminal, or makes a second line', async t => {
  for (const color of [false, true]) {
    const hostile = 'a\x00\x1b[2J\r\n\t\x7f\x9b'
    const line = people(color).decision(
      { ...GET, method: hostile, host: hostile, path: hostile },
      deny(hostile, 'b'),
    )
    t.match(line?.replace(/\x1b\[\d+m/g, ''), /^[\x20-\x7e]*\n$/)
  }
})

t.test(
  'the readable log has these lines for exchanges, also for those of workers, and its own for the rest',
  async t => {
    const file = join(t.testdir({}), 'log')
    const fd = openSync(file, 'w')
    const log = createLog({ level: 'info', format: 'pretty', color: false }, fd)
    const access = new AccessLog({ logger: log.logger, query: 'omit', wallClock: Date.now })
    access.decision(CONNECT, deny('no_rule', 'no rule'), 'abc')
    access.decision(GET, ALLOW, 'abc')
    access.close(GET, Outcome.complete('forward', 200, { bytesUp: 0, bytesDown: 1 }), 1, ALLOW)
    log.logger.warn({ event: 'open_listener', proxy: ['0.0.0.0:1'], message: 'strangers\n"\\' })
    log.logger.info({ event: 'x', rule: '"event":"decision"' })
    const lines: string[] = []
    const other = new AccessLog({
      logger: createLogger('info', { write: line => void lines.push(line) }),
      query: 'omit',
      wallClock: Date.now,
    })
    other.decision(CONNECT, deny('port', 'port'), 'abc')
    log.pass(lines.join(''))
    await log.flush()
    closeSync(fd)
    const text = readFileSync(file, 'utf8').replace(/^\[[\d:.]+\] /gm, '')
    t.match(
      text,
      /^DENY .*\nALLOW GET .*\nWARN: open_listener: .*\nINFO: x .*\nDENY {2}CONNECT .* port: port .*\n$/,
    )
    t.match(text, 'open_listener: strangers\\u000a"\\ {"proxy":["0.0.0.0:1"]}\n')
  },
)
