import t from 'tap'
import { EXIT, paint, streamIo } from '../../src/run/io.js'

const sink = (isTTY: boolean) => {
  const written: string[] = []
  return { isTTY, written, write: (text: string) => written.push(text) }
}

t.test('writes each text to its stream unchanged', t => {
  const [stdout, stderr] = [sink(false), sink(false)]
  const io = streamIo(stdout, stderr, {})
  io.stdout('out\n')
  io.stderr('err\n')
  t.same([stdout.written, stderr.written], [['out\n'], ['err\n']])
  t.end()
})

t.test('uses colour when stderr is a terminal and NO_COLOR is unset or empty', t => {
  for (const [isTTY, env, color] of [
    [true, {}, true],
    [true, { NO_COLOR: '' }, true],
    [true, { NO_COLOR: '0' }, false],
    [false, {}, false],
  ] as const) {
    const io = streamIo(sink(!isTTY), sink(isTTY), env)
    t.equal(io.color, color)
    t.equal(paint(io, 'red', 'x'), color ? '\x1b[31mx\x1b[39m' : 'x')
  }
  t.equal(streamIo(sink(true), { write: () => true }, {}).color, false, 'a pipe has no isTTY at all')
  t.end()
})

t.test('exit codes are those of sysexits.h', async t => {
  t.strictSame(EXIT, {
    ok: 0,
    denied: 1,
    usage: 64,
    data: 65,
    noInput: 66,
    unavailable: 69,
    software: 70,
    system: 71,
    cannotCreate: 73,
    ioError: 74,
    temporary: 75,
    config: 78,
  })
})
