import t from 'tap'
import { ResponseWatch } from '../../src/upstream/response-watch.js'

/** A watch, what it calls out, and text to show it: the pieces of one call come one after another. */
function watching() {
  const calls: string[] = []
  const watch = new ResponseWatch(40, () => calls.push('stray'))
  return {
    watch,
    calls,
    expect: () =>
      watch.expect(
        () => calls.push('foreign'),
        () => calls.push('overlong'),
      ),
    see: (...pieces: string[]) => {
      for (const piece of pieces) watch.observe(Buffer.from(piece, 'latin1'))
    },
  }
}

t.test('reads the version a response begins with, however it is cut (RFC 9112 §2.3)', async t => {
  for (const [pieces, minor] of [
    [['HTTP/1.1 200 OK\r\n'], 1],
    [['HTTP/1.0 200 OK\r\n'], 0],
    [[...'HTTP/1.0 200'], 0],
    [['HTTP/1.', '1 200 OK'], 1],
    [['\r\n\r\nHTTP/1.0 200'], 0],
    [['\r', '\n', 'HTTP/1', '.0'], 0],
  ] as const) {
    const { watch, calls, expect, see } = watching()
    expect()
    see(...pieces)
    t.same([watch.minor, calls], [minor, []], JSON.stringify(pieces))
  }
})

t.test('what begins otherwise is called out, once (RFC 9112 §2.3)', async t => {
  for (const text of [
    'HTTP/2.0',
    'HTTP/0.9',
    'HTTP/1.2',
    'HTTP/11 ',
    'http/1.1',
    'RTSP/1.0',
    ' HTTP/1.1',
    'H\r\nTTP/1.1',
  ]) {
    for (const pieces of [[text, ' 200 OK\r\n'], [...text]]) {
      const { calls, expect, see } = watching()
      expect()
      see(...pieces)
      t.same(calls, ['foreign'], text)
    }
  }
})

t.test(
  'a first line that is too long is called out, once, with what is in front of it (RFC 9112 §4)',
  async t => {
    const line = 'HTTP/1.1 200 '
    for (const [text, long] of [
      [line + 'x'.repeat(27), false],
      [line + 'x'.repeat(28), true],
      [`\r\n${line}${'x'.repeat(25)}`, false],
      [`\r\n${line}${'x'.repeat(26)}`, true],
      ['\r\n'.repeat(20), false],
      ['\r\n'.repeat(21), true],
      [`${line}\r\n${'x'.repeat(99)}`, false],
    ] as const) {
      for (const pieces of [[text, '\n', 'x'.repeat(99)], [...text]]) {
        const { calls, expect, see } = watching()
        expect()
        // Empty lines go on to be counted as long as nothing else comes.
        see(...(text.trim() === '' ? [...text] : pieces))
        t.same(calls, long ? ['overlong'] : [], JSON.stringify(text))
      }
    }
  },
)

t.test('what follows an interim response is held to the same (RFC 9110 §15.2)', async t => {
  const early = 'HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n'
  const last = 'HTTP/1.1 200 '
  for (const [text, expected] of [
    [`${early}${last}${'x'.repeat(26)}\r\n${'x'.repeat(99)}`, []],
    [`${early}${last}${'x'.repeat(28)}\r\n`, ['overlong']],
    [`HTTP/1.1 100 Continue\r\n\r\n${early}${last}${'x'.repeat(28)}`, ['overlong']],
    [`HTTP/1.1 100 Continue\n\n${last}${'x'.repeat(28)}`, ['overlong']],
    [`${early}\r\n\r\n${last}${'x'.repeat(24)}`, ['overlong']],
    [`${early}HTTP/2.0 200 OK\r\n`, ['foreign']],
    [`HTTP/1.1 103 x\r\nLink: ${'x'.repeat(99)}\r\n\r\n${last}`, []],
    [`HTTP/1.1 101 x\r\n\r\n${'x'.repeat(99)}`, []],
    [`HTTP/1.1 200 x\r\n\r\nHTTP/2.0`, []],
  ] as const) {
    for (const pieces of [[text], [...text]]) {
      const { calls, expect, see } = watching()
      expect()
      see(...pieces)
      t.same(calls, expected, JSON.stringify(text))
    }
  }
  const { watch, expect, see } = watching()
  expect()
  see('HTTP/1.0 103 x\r\n\r\n')
  t.equal(watch.minor, 0)
  see(last)
  t.equal(watch.minor, 1)
})

t.test('less than a version is not judged', async t => {
  const { calls, expect, see } = watching()
  expect()
  see('HTTP/2.', '')
  t.same(calls, [])
})

t.test('bytes are stray before a request and after its answer, and only then', async t => {
  const { watch, calls, expect, see } = watching()
  see('a')
  t.same(calls, ['stray'])
  expect()
  see('HTTP/1.1 200 OK\r\n\r\n', 'content', 'HTTP/2.0')
  t.same(calls, ['stray'])
  watch.rest()
  see('\r\n')
  t.same(calls, ['stray', 'stray'], 'an empty line too')
  expect()
  see('HTTP/1.0 200 OK')
  t.equal(watch.minor, 0)
  t.same(calls, ['stray', 'stray'])
})
