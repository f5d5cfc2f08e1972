import t from 'tap'
import { Turns } from '../../../src/origin/store/turns.js'
import { turns as loopTurns } from '../../kit/peers/settled.js'

function jobs(turns: Turns) {
  const running: string[] = []
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const run = (name: string, signal: AbortSignal = new AbortController().signal): Promise<string> =>
    turns.run(async () => {
      begun.push(name)
      running.push(name)
      await new Promise<void>(resolve => ends.set(name, resolve))
      running.splice(running.indexOf(name), 1)
      return name
    }, signal)
  return { running, begun, run, end: (name: string) => ends.get(name)?.() }
}

t.test('so many at a time, the others in their order', async t => {
  const { running, run, end } = jobs(new Turns(2))
  const all = ['a', 'b', 'c', 'd'].map(name => run(name))
  await loopTurns()
  t.same(running, ['a', 'b'])
  end('b')
  t.equal(await all[1], 'b')
  await loopTurns()
  t.same(running, ['a', 'c'])
  for (const name of ['a', 'c']) end(name)
  await loopTurns()
  t.same(running, ['d'])
  end('d')
  t.same(await Promise.all(all), ['a', 'b', 'c', 'd'])
})

t.test('work that fails gives its turn to the next', async t => {
  const turns = new Turns(1)
  const { signal } = new AbortController()
  const failing = turns.run(() => Promise.reject(new Error('no')), signal)
  const next = turns.run(async () => 'done', signal)
  await t.rejects(failing, { message: 'no' })
  t.equal(await next, 'done')
})

t.test('who is gone has no turn, and takes none from others', async t => {
  const { begun, run, end } = jobs(new Turns(1))
  const gone = new AbortController()
  const first = run('a')
  const left = run('b', gone.signal)
  const last = run('c', gone.signal)
  const stays = run('d')
  await loopTurns()
  gone.abort()
  await t.rejects(left, { name: 'ClientGone' })
  await t.rejects(last, { name: 'ClientGone' })
  await t.rejects(run('e', gone.signal), { name: 'ClientGone' })
  end('a')
  await first
  await loopTurns()
  t.same(begun, ['a', 'd'])
  end('d')
  await stays
})
