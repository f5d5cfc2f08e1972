import t from 'tap'
import { parseIpAddress } from '../../src/net/ip-address.js'
import { type Permit, permitConfigured } from '../../src/policy/permit.js'
import { Pool, poolKey } from '../../src/upstream/pool.js'

class FakeConnection {
  readonly address: string
  readonly port: number
  readonly #pool: Pool<FakeConnection>
  closed = false

  constructor(pool: Pool<FakeConnection>, address: string, port = 80) {
    this.#pool = pool
    this.address = address
    this.port = port
    pool.add(this)
  }

  close(): void {
    this.closed = true
    this.#pool.remove(this)
  }
}

function permit(addresses: string[], port = 80): Permit {
  return permitConfigured('test', { kind: 'name', name: 'a.test' }, port, addresses, 0)
}

t.test('an idle connection is taken by whoever may reach its address and port', async t => {
  const pool = new Pool<FakeConnection>()
  const connection = new FakeConnection(pool, '192.0.2.1')
  t.equal(pool.take(permit(['192.0.2.1'])), undefined, 'a new one is busy')
  pool.give(connection)
  t.equal(pool.take(permit(['192.0.2.2'])), undefined)
  t.equal(pool.take(permit(['192.0.2.1'], 81)), undefined)
  t.equal(pool.take(permit(['192.0.2.2', '192.0.2.1'])), connection)
  t.equal(pool.take(permit(['192.0.2.1'])), undefined, 'it is busy now')
})

t.test('addresses are compared in canonical form', async t => {
  const pool = new Pool<FakeConnection>()
  const six = new FakeConnection(pool, parseIpAddress('2001:0db8:0:0::1')?.text ?? '')
  const four = new FakeConnection(pool, '192.0.2.1')
  pool.give(six)
  pool.give(four)
  t.equal(pool.take(permit(['2001:db8::0001'])), six)
  t.equal(pool.take(permit(['::ffff:192.0.2.1'])), four)
  t.equal(poolKey('192.0.2.1', 80) === poolKey('192.0.2.1', 8), false)
})

t.test('the one used last is taken first', async t => {
  const pool = new Pool<FakeConnection>()
  const [one, two] = [new FakeConnection(pool, '192.0.2.1'), new FakeConnection(pool, '192.0.2.1')]
  pool.give(one)
  pool.give(two)
  t.equal(pool.take(permit(['192.0.2.1'])), two)
  t.equal(pool.take(permit(['192.0.2.1'])), one)
})

t.test('one that has closed is never taken, and can not be given back', async t => {
  const pool = new Pool<FakeConnection>()
  const [one, two] = [new FakeConnection(pool, '192.0.2.1'), new FakeConnection(pool, '192.0.2.1')]
  pool.give(one)
  pool.give(two)
  one.close()
  two.close()
  pool.give(two)
  pool.remove(two)
  t.equal(pool.take(permit(['192.0.2.1'])), undefined)
})

t.test('no more than 256 idle ones are kept for an address', async t => {
  const pool = new Pool<FakeConnection>()
  const connections = Array.from({ length: 257 }, () => new FakeConnection(pool, '192.0.2.1'))
  const other = new FakeConnection(pool, '192.0.2.2')
  for (const connection of [...connections, other]) pool.give(connection)
  t.equal(connections.filter(({ closed }) => closed).length, 1)
  t.equal(connections.at(-1)?.closed, true)
  t.equal(other.closed, false)
})

t.test('closing closes the idle and the busy', async t => {
  const pool = new Pool<FakeConnection>()
  const [idle, busy] = [new FakeConnection(pool, '192.0.2.1'), new FakeConnection(pool, '192.0.2.1')]
  pool.give(idle)
  pool.close()
  t.same([idle.closed, busy.closed], [true, true])
})
