import t from 'tap'
import { ClientBudget, Turns } from '../../../src/origin/store/turns.js'
import { turns as loopTurns } from '../../kit/peers/until-stable.js'

const NEVER = new AbortController().signal

function jobs(turns: Turns) {
  const running: string[] = []
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const run = (name: string, signal: AbortSignal = NEVER, client = ''): Promise<string> =>
    turns.run(
      async () => {
        begun.push(name)
        running.push(name)
        await new Promise<void>(resolve => ends.set(name, resolve))
        running.splice(running.indexOf(name), 1)
        return name
      },
      client,
      signal,
    )
  return { running, begun, run, end: (name: string) => ends.get(name)?.() }
}

t.test('a limited number of pieces of work runs at a time, the others in their order', async t => {
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

t.test('after work that fails the next piece runs', async t => {
  const turns = new Turns(1)
  const { signal } = new AbortController()
  const failing = turns.run(() => Promise.reject(new Error('no')), 'a', signal)
  const next = turns.run(async () => 'done', 'a', signal)
  await t.rejects(failing, { message: 'no' })
  t.equal(await next, 'done')
})

t.test('work whose client has gone does not run, and does not delay others', async t => {
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

t.test('clients take turns: one with much work does not delay one with little', async t => {
  const { begun, run, end } = jobs(new Turns(1))
  const names = ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2']
  const all = names.map(name => run(name, NEVER, name[0]))
  for (const [i] of names.entries()) {
    await loopTurns()
    end(begun[i] ?? '')
  }
  await Promise.all(all)
  t.same(begun, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4'])
})

t.test('work that is cancelled leaves no turn behind', async t => {
  const { begun, run, end } = jobs(new Turns(1))
  const gone = new AbortController()
  const first = run('a', NEVER, 'a')
  const left = [run('b1', gone.signal, 'b'), run('b2', gone.signal, 'b')]
  const next = run('c', NEVER, 'c')
  gone.abort()
  for (const one of left) await t.rejects(one, { name: 'ClientGone' })
  end('a')
  await first
  await loopTurns()
  t.same(begun, ['a', 'c'])
  const again = run('b3', NEVER, 'b')
  end('c')
  await next
  await loopTurns()
  end('b3')
  t.equal(await again, 'b3')
})

const budget = () => new ClientBudget({ total: 5, perClient: 3, what: 'things' })

t.test('each client has a limit, and all together the total', t => {
  const all = budget()
  const [a, other, b, c] = ['a', 'a', 'b', 'c'].map(client => all.share(client))
  a?.take(2)
  other?.take(1)
  const own = {
    name: 'ProxyError',
    status: 429,
    reason: 'store_busy_client',
    fields: ['Retry-After', '1'],
    message: 'too many waiting things of this client',
  }
  t.throws(() => other?.take(1), own)
  b?.take(2)
  t.throws(() => c?.take(1), {
    name: 'ProxyError',
    status: 503,
    reason: 'store_busy',
    fields: ['Retry-After', '1'],
  })
  t.throws(() => b?.take(2), own, 'its own part is what it is told of first')
  a?.giveBack()
  c?.take(2)
  t.throws(() => c?.take(1), { name: 'ProxyError', status: 503 })
  t.end()
})

t.test('what was refused is not counted, and everything is returned', t => {
  const all = budget()
  for (let round = 0; round < 3; round++) {
    const shares = ['a', 'b'].map(client => all.share(client))
    for (const share of shares) {
      share.take(1)
      share.take(1)
      t.throws(() => share.take(2), { name: 'ProxyError', status: 429 })
    }
    for (const share of shares) share.giveBack()
  }
  all.share('a').take(3)
  t.end()
})
