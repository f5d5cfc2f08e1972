import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type ChildOptions, runChild } from '../../src/cli/child.js'

const NODE = process.execPath

function options(onSignal: ChildOptions['onSignal'] = () => () => {}): ChildOptions {
  // The test runner hooks itself into every child through NODE_OPTIONS.
  return { env: { ...process.env, NODE_OPTIONS: '' }, onSignal }
}

t.test('gives the code of the program, and 128 and the number of a signal that ended it', async t => {
  const run = (script: string) => runChild('sh', ['-c', script], options())
  t.strictSame(await run('exit 0'), { code: 0 })
  t.strictSame(await run('exit 7'), { code: 7 })
  t.strictSame(await run('kill -KILL $$'), { code: 137 })
  t.strictSame(await run('kill -TERM $$'), { code: 143 })
})

t.test('a program that is not there is 127, one that can not be run 126', async t => {
  const file = join(t.testdir({ plain: '' }), 'plain')
  chmodSync(file, 0o600)
  t.strictSame(await runChild('/no/such/program', [], options()), {
    code: 127,
    problem: '/no/such/program: no such program',
  })
  t.strictSame(await runChild(file, [], options()), {
    code: 126,
    problem: `${file}: can not be run (EACCES)`,
  })
  const long = 'x'.repeat(10_000_000)
  t.strictSame(await runChild(NODE, [long], options()), {
    code: 126,
    problem: `${NODE}: can not be run (E2BIG)`,
  })
})

t.test('passes signals on while the program runs, and not after', async t => {
  const listeners = new Set<(signal: NodeJS.Signals) => void>()
  const script = "trap 'kill -KILL $$' HUP; kill -USR2 $PPID; while :; do sleep 0.01; done"
  const ready = new Promise<void>(resolve => process.once('SIGUSR2', resolve))
  const ended = runChild(
    'sh',
    ['-c', script],
    options(listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    }),
  )
  await ready
  t.equal(listeners.size, 1)
  for (const pass of listeners) pass('SIGHUP')
  t.strictSame(await ended, { code: 137 })
  t.equal(listeners.size, 0)
})
