import t from 'tap'
import { parseHost } from '../../src/http/authority.js'
import { parseIpAddress } from '../../src/net/ip-address.js'
import { type Permit, permitConfigured } from '../../src/policy/permit.js'
import { Pool, poolKey } from '../../src/upstream/pool.js'

class FakeConnection {
  readonly key: string
  readonly #pool: Pool<FakeConnection>
  idleSince = 0
  closed = 0

  constructor(pool: Pool<FakeConnection>, asked: Permit, address = asked.addresses[0]?.text ?? '') {
    this.#pool = pool
    this.key = pool.keyOf(asked, address)
    pool.add(this)
  }

  close(): void {
    this.closed += 1
    this.#pool.remove(this)
  }
}

function permit(addresses: string[], port = 80, host = 'a.test'): Permit {
  return permitConfigured('test', parseHost(host), port, addresses)
}

const ONE = permit(['192.0.2.1'])

t.test('an idle connection is reused for its authority if its address is in the permit', async t => {
  const pool = new Pool<FakeConnection>('http')
  const connection = new FakeConnection(pool, ONE)
  t.equal(pool.take(ONE), undefined, 'a new one is busy')
  pool.give(connection)
  t.equal(pool.take(permit(['192.0.2.2'])), undefined)
  t.equal(pool.take(permit(['192.0.2.1'], 81)), undefined)
  t.equal(pool.take(permit(['192.0.2.1'], 80, 'b.test')), undefined)
  t.equal(pool.take(permit(['192.0.2.1'], 80, '192.0.2.1')), undefined)
  t.equal(pool.take(permit(['192.0.2.2', '192.0.2.1'])), connection)
  t.equal(pool.take(ONE), undefined, 'it is busy now')
})

t.test('a different scheme, host, port or address makes a different key', async t => {
  const grants = ['a.test', 'b.test', '192.0.2.1', '[::1]'].flatMap(text =>
    [80, 8, 8080].map(port => ({ host: parseHost(text), port })),
  )
  const keys = (['http', 'https'] as const).flatMap(scheme =>
    grants.flatMap(grant => ['192.0.2.1', '::1'].map(address => poolKey(scheme, grant, address))),
  )
  t.equal(new Set(keys).size, 2 * 4 * 3 * 2)
})

t.test('addresses are compared in canonical form', async t => {
  const pool = new Pool<FakeConnection>('http')
  const asked = permit(['2001:db8::0001', '::ffff:192.0.2.1'])
  const six = new FakeConnection(pool, asked, parseIpAddress('2001:0db8:0:0::1')?.text)
  const four = new FakeConnection(pool, asked, '192.0.2.1')
  pool.give(six)
  pool.give(four)
  t.equal(pool.take(permit(['2001:db8::0001'])), six)
  t.equal(pool.take(permit(['::ffff:192.0.2.1'])), four)
})

t.test('the most recently used connection is taken first', async t => {
  const pool = new Pool<FakeConnection>('http')
  const [one, two] = [new FakeConnection(pool, ONE), new FakeConnection(pool, ONE)]
  pool.give(one)
  pool.give(two)
  t.equal(pool.take(ONE), two)
  t.equal(pool.take(ONE), one)
})

t.test('a closed connection is never taken, and cannot be returned', async t => {
  const pool = new Pool<FakeConnection>('http')
  const [one, two] = [new FakeConnection(pool, ONE), new FakeConnection(pool, ONE)]
  pool.give(one)
  pool.give(two)
  one.close()
  two.close()
  pool.give(two)
  pool.remove(two)
  t.equal(pool.take(ONE), undefined)
})

t.test('a connection that is returned twice is in the pool once', async t => {
  const pool = new Pool<FakeConnection>('http')
  const connection = new FakeConnection(pool, ONE)
  pool.give(connection)
  pool.give(connection)
  t.equal(pool.take(ONE), connection)
  t.equal(pool.take(ONE), undefined)
})

t.test('at most 256 idle connections are kept for one key', async t => {
  const pool = new Pool<FakeConnection>('http')
  const connections = Array.from({ length: 257 }, () => new FakeConnection(pool, ONE))
  const other = new FakeConnection(pool, permit(['192.0.2.1'], 80, 'b.test'))
  for (const connection of [...connections, other]) pool.give(connection)
  t.equal(connections.filter(({ closed }) => closed > 0).length, 1)
  t.equal(connections.at(-1)?.closed, 1)
  t.equal(other.closed, 0)
})

t.test('at most 1024 idle connections are kept in total, for any number of names', async t => {
  const pool = new Pool<FakeConnection>('http')
  const asked = Array.from({ length: 1026 }, (_, i) => permit(['192.0.2.1'], 80, `n${i}.test`))
  const connections = asked.map(each => new FakeConnection(pool, each))
  const closed = () => connections.flatMap((connection, i) => (connection.closed > 0 ? [i] : []))
  for (const connection of connections.slice(0, 1024)) pool.give(connection)
  const [first, second] = asked
  if (first === undefined || second === undefined) throw new Error('none')
  t.equal(pool.take(first), connections[0])
  pool.give(connections[0] as FakeConnection)
  t.same(closed(), [])
  for (const connection of connections.slice(1024)) pool.give(connection)
  t.same(closed(), [1, 2], 'those that have been idle longest')
  t.equal(pool.take(second), undefined)
  t.equal(pool.take(first), connections[0])
})

t.test('a retired pool keeps only busy connections, and closes those that are returned', async t => {
  const pool = new Pool<FakeConnection>('http')
  const [idle, busy] = [new FakeConnection(pool, ONE), new FakeConnection(pool, ONE)]
  pool.give(idle)
  pool.retire()
  t.same([idle.closed, busy.closed], [1, 0])
  pool.give(busy)
  t.same([idle.closed, busy.closed], [1, 1])
  t.equal(pool.take(ONE), undefined)
})

t.test('closing the pool closes idle and busy connections', async t => {
  const pool = new Pool<FakeConnection>('http')
  const [idle, busy] = [new FakeConnection(pool, ONE), new FakeConnection(pool, ONE)]
  pool.give(idle)
  pool.close()
  t.same([idle.closed, busy.closed], [1, 1])
})
