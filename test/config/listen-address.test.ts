import t from 'tap'
import { parseListenAddress, serializeListenAddress } from '../../src/config/listen-address.js'

t.test('reads an IP literal or localhost, and a port', t => {
  for (const [text, host, port] of [
    ['127.0.0.1:3128', '127.0.0.1', 3128],
    ['0.0.0.0:0', '0.0.0.0', 0],
    ['127.0.0.1:1', '127.0.0.1', 1],
    ['127.0.0.1:65535', '127.0.0.1', 65535],
    ['[::]:3128', '::', 3128],
    ['[2001:DB8::1]:80', '2001:db8::1', 80],
    ['localhost:9128', 'localhost', 9128],
  ] as const) {
    t.same(parseListenAddress(text), { host, port }, text)
    t.equal(serializeListenAddress({ host, port }), text.toLowerCase())
  }
  t.end()
})

t.test('says what is wrong with anything else', t => {
  for (const [text, clause] of [
    ['', 'without a port'],
    ['3128', 'without a port'],
    ['127.0.0.1', 'without a port'],
    ['[::1]', 'without a port'],
    ['127.0.0.1:', 'with a port that is not 0 to 65535'],
    ['127.0.0.1:65536', 'with a port that is not 0 to 65535'],
    ['127.0.0.1:080', 'with a port that is not 0 to 65535'],
    ['127.0.0.1:-1', 'with a port that is not 0 to 65535'],
    ['127.0.0.1:http', 'with a port that is not 0 to 65535'],
    [':3128', 'write 0.0.0.0:3128 for every IPv4 interface'],
    ['*:3128', 'write 0.0.0.0:3128 for every IPv4 interface'],
    ['::1:3128', 'IPv6 goes in brackets'],
    ['example.com:3128', 'whose host is neither an IP address nor localhost'],
    ['a.localhost:3128', 'whose host is neither an IP address nor localhost'],
    ['127.1:3128', 'whose host is neither an IP address nor localhost'],
    ['0177.0.0.1:3128', 'whose host is neither an IP address nor localhost'],
    ['[::1%lo]:3128', 'whose host is neither an IP address nor localhost'],
  ] as const) {
    const message = `expected an address such as "127.0.0.1:3128" or "[::1]:3128", found "${text}", ${clause}`
    t.throws(() => parseListenAddress(text), new RangeError(message), JSON.stringify(text))
  }
  t.end()
})
