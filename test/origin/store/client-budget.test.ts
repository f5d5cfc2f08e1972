import t from 'tap'
import { ClientBudget } from '../../../src/origin/store/client-budget.js'

const budget = () => new ClientBudget({ inAll: 5, perClient: 3, what: 'things' })

t.test('one client has its part, and all together no more than there is', t => {
  const all = budget()
  const [a, other, b, c] = ['a', 'a', 'b', 'c'].map(client => all.share(client))
  a?.take(2)
  other?.take(1)
  const own = {
    name: 'ProxyError',
    status: 429,
    reason: 'store_busy_client',
    fields: ['Retry-After', '1'],
    message: 'too many things of this client wait',
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

t.test('what was refused is not held, and everything comes back', t => {
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
