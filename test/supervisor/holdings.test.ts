import t from 'tap'
import { LocalLedger } from '../../src/limits/ledger.js'
import { Holdings } from '../../src/supervisor/holdings.js'

t.test('what one holds is given back when it ends, and nothing of the others', async t => {
  const ledger = new LocalLedger(() => 0)
  const [one, other] = [new Holdings(ledger), new Holdings(ledger)]
  t.same(
    [one.acquire('a', 4), one.acquire('a', 4), other.acquire('a', 4), one.acquire('b', 1)],
    [true, true, true, true],
  )
  t.equal(other.acquire('b', 1), false)
  one.release('a')
  t.equal(ledger.held('a'), 2)
  one.releaseAll()
  t.equal(ledger.held('a'), 1)
  t.equal(ledger.held('b'), 0)
  one.releaseAll()
  t.equal(ledger.held('a'), 1)
})

t.test('nobody gives back what another holds', async t => {
  const ledger = new LocalLedger(() => 0)
  const [one, other] = [new Holdings(ledger), new Holdings(ledger)]
  one.acquire('a', 1)
  other.release('a')
  t.equal(ledger.held('a'), 1)
})
