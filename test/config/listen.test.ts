import t from 'tap'
import { DEFAULT_ADMIN } from '../../src/config/listen.js'
import { parseListenAddress } from '../../src/config/listen-address.js'
import { load, refuses } from './problems-of.js'

t.test('the default of listen.admin is the address that references compare with', t => {
  t.same(load('').listen.admin, parseListenAddress(DEFAULT_ADMIN))
  t.end()
})

t.test('the TLS listener has an address of TCP alone', t => {
  const expected = 'expected an address such as "127.0.0.1:3128" or "[::1]:3128"'
  refuses(
    t,
    ['unix:/run/tls.sock', 'systemd:tls'].map(address => [
      `listen: { tls: { address: "${address}", cert: a, key: b } }`,
      `2:27 listen.tls.address: ${expected}, found "${address}", with a port that is not 0 to 65535`,
    ]),
  )
  t.end()
})
