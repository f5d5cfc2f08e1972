import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { AccessLog } from '../../src/observe/access-log.js'
import { atLevel, createLog, createLogger, type LogOptions } from '../../src/observe/log.js'

const HOSTILE = 'a\x00\x07\x1b[2J\x1b]0;x\x07\x7f\x85\x9b2Jé\u2028'

/** What a log with these options writes. */
async function written(
  t: Test,
  options: Partial<LogOptions>,
  use: (log: ReturnType<typeof createLog>) => void,
) {
  const file = join(t.testdir({}), 'log')
  const fd = openSync(file, 'w')
  const log = createLog({ level: 'info', format: 'json', color: false, ...options }, fd)
  use(log)
  await log.flush()
  closeSync(fd)
  return readFileSync(file, 'utf8')
}

t.test('JSON: level, time, schema, then what was said', async t => {
  const text = await written(t, {}, ({ logger }) => logger.warn({ event: 'x', n: 1, none: undefined }))
  t.match(text, /^\{"level":"warn","time":"[\d-]+T[\d:.]+Z","schema":1,"event":"x","n":1\}\n$/)
})

t.test('pretty: time, level, event and the rest in one line', async t => {
  const text = await written(t, { format: 'pretty' }, ({ logger }) => logger.info({ event: 'x', n: 1 }))
  t.match(text, /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: x \{"n":1\}\n$/)
})

t.test('colour only where asked for', async t => {
  const use = ({ logger }: ReturnType<typeof createLog>) => logger.info({ event: 'x' })
  t.match(await written(t, { format: 'pretty', color: true }, use), '\x1b[32mINFO\x1b[39m')
  t.notMatch(await written(t, { format: 'pretty', color: false }, use), '\x1b')
  t.notMatch(await written(t, { format: 'json', color: true }, use), '\x1b')
})

t.test('entries below the level are not written', async t => {
  const levels = ['trace', 'debug', 'info', 'warn', 'error'] as const
  for (const [i, level] of [...levels, 'silent' as const].entries()) {
    const text = await written(t, { level }, ({ logger }) => {
      for (const each of levels) logger[each]({ event: each })
    })
    const events = text.split('\n').slice(0, -1)
    t.strictSame(
      events.map(line => JSON.parse(line).event),
      levels.slice(i),
      level,
    )
  }
})

t.test('no control character gets through, in values, messages or errors, in either format', async t => {
  for (const options of [
    { format: 'json' },
    { format: 'pretty' },
    { format: 'pretty', color: true },
  ] as const) {
    const text = await written(t, options, ({ logger }) => {
      logger.info({ event: 'x', host: HOSTILE, [HOSTILE]: 1 })
      logger.error({ event: 'x', err: new Error(HOSTILE), list: [HOSTILE], deep: { a: HOSTILE } }, HOSTILE)
      const subject = {
        id: '1',
        client: 'a',
        clientAddress: '::1',
        kind: 'invalid',
        method: HOSTILE,
      } as const
      new AccessLog({ logger, query: 'include', wallClock: () => 0 }).decision(
        { ...subject, host: HOSTILE, path: HOSTILE },
        { decision: 'deny', reason: HOSTILE },
        HOSTILE,
      )
    })
    const plain = options.format === 'pretty' && 'color' in options ? text.replace(/\x1b\[\d+m/g, '') : text
    t.notMatch(plain, /[\0-\x08\x0b-\x1f\x7f-\x9f]/, JSON.stringify(options))
    t.ok(text.includes('é'), 'what is no control stays')
  }
})

t.test('a logger writes whole lines to any stream', async t => {
  const lines: string[] = []
  const logger = createLogger('info', { write: line => void lines.push(line) })
  logger.info({ event: 'a' })
  logger.info({ event: 'b' })
  t.strictSame(
    lines.map(line => [JSON.parse(line).event, line.endsWith('}\n')]),
    [
      ['a', true],
      ['b', true],
    ],
  )
})

t.test('lines of other processes are passed as they are, and made readable where all are', async t => {
  const lines =
    '{"level":"info","time":"2026-01-01T00:00:00.000Z","schema":1,"event":"a"}\n' +
    '{"level":"warn","time":"2026-01-01T00:00:00.000Z","schema":1,"event":"b","n":1}\n'
  t.equal(await written(t, { level: 'error' }, log => log.pass(lines)), lines)
  const pretty = await written(t, { format: 'pretty' }, log => log.pass(lines))
  t.match(pretty, /^\[[\d:.]+\] INFO: a\n\[[\d:.]+\] WARN: b \{"n":1\}\n$/)
})

t.test('work at another level leaves it, unless it fails', async t => {
  const logger = createLogger('info', { write: () => {} })
  t.equal(await atLevel(logger, 'debug', async () => logger.level), 'debug')
  t.equal(logger.level, 'debug')
  await t.rejects(
    atLevel(logger, 'warn', async () => {
      throw new Error(logger.level)
    }),
    { message: 'warn' },
  )
  t.equal(logger.level, 'debug')
})

t.test('pretty: what follows the event is JSON, with every backslash that it needs', async t => {
  const values = { path: '/a\\"b', query: 'c:\\d\\\\e\\', error: 'x\\"', list: ['\\n', '\n'], plain: '"' }
  for (const color of [false, true]) {
    const text = await written(t, { format: 'pretty', color }, ({ logger }) =>
      logger.info({ event: 'x', ...values }),
    )
    const plain = text.replace(/\x1b\[\d+m/g, '')
    const [, rest = ''] = /^\[[\d:.]+\] INFO: x (\{.*\})\n$/.exec(plain) ?? []
    t.same(JSON.parse(rest), values)
  }
})

t.test(
  'says how many lines it could not write',
  { skip: process.platform !== 'linux' && 'no /dev/full' },
  async t => {
    const fd = openSync('/dev/full', 'w')
    t.teardown(() => closeSync(fd))
    const log = createLog({ level: 'info', format: 'json', color: false }, fd)
    t.equal(log.lostLines(), 0)
    log.logger.info({ event: 'x' })
    log.pass('{"event":"y"}\n{"event":"z"}\n')
    await log.flush()
    t.equal(log.lostLines(), 3)
  },
)
