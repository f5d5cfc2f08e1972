import t from 'tap'
import Reporter from './reporter.js'

/** What is shown of TAP that comes in pieces of so many characters. */
async function shown(tap: string, size = tap.length): Promise<string> {
  const reporter = new Reporter()
  for (let at = 0; at < tap.length; at += size) reporter.write(tap.slice(at, at + size))
  reporter.end()
  let text = ''
  for await (const piece of reporter) text += piece
  return text
}

const REASONS =
  '          ---\n          compare: ===\n          diff: |\n            ok 1 - of the reasons\n          ...\n'

const TAP = `TAP version 14
# Subtest: all.js
    ok 1 - 001-pure.js # time=5ms {
        # Subtest: test/a.test.ts
            ok 1 - is so
            1..1
        ok 1 - test/a.test.ts # time=1ms
        1..1
    }

    not ok 2 - 002-shared.js # time=7ms
      ---
      exitCode: 1
      ...
    {
        # Subtest: test/b.test.ts
            not ok 1 - is not
${REASONS}            ok 2 - is # SKIP for want of it
            1..2
        not ok 1 - test/b.test.ts # time=2ms
        1..1
    }

    1..2
not ok 1 - all.js # time=12.5ms
1..1
# { total: 3, pass: 2, fail: 1 }
# time=20.125ms
`

t.test('shows each process, what has failed with its reasons and where it is, and the totals', async t => {
  const expected = `ok: 001-pure.js
not ok: all.js > 002-shared.js
      ---
      exitCode: 1
      ...
not ok: all.js > 002-shared.js > test/b.test.ts > is not
${REASONS}not ok: all.js > 002-shared.js > test/b.test.ts
not ok: all.js
# { total: 3, pass: 2, fail: 1 }
# time=20.125ms
`
  for (const size of [1, 7, TAP.length]) t.equal(await shown(TAP, size), expected, `in pieces of ${size}`)
})

t.test('shows why a run was given up', async t => {
  t.equal(
    await shown('    ok 1 - 001-pure.js\n    Bail out! no more'),
    'ok: 001-pure.js\n    Bail out! no more\n',
  )
})
