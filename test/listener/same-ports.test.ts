import t from 'tap'
import { samePorts } from '../../src/listener/same-ports.js'

t.test('addresses are those that were bound; what is not bound by a worker stays', async t => {
  const free = { host: 'localhost', port: 0 }
  const socket = { path: '/run/a.sock', mode: 0o600 }
  const passed = { fd: 3, name: 'web', key: 'listen.proxy' }
  const addresses = [free, socket, passed, free]
  const bound = [
    { host: '127.0.0.1', port: 40_000 },
    { path: '/run/a.sock' },
    { host: '127.0.0.1', port: 80 },
    { host: '127.0.0.1', port: 40_001 },
  ]
  t.same(samePorts(addresses, bound), [bound[0], socket, passed, bound[3]])
  t.same(samePorts(addresses), addresses, 'the first binds what is configured')
})
