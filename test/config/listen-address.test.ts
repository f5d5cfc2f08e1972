import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import {
  isTcp,
  parseListenAddress,
  parseSingleAddress,
  parseTcpAddress,
  serializeListenAddress,
} from '../../src/config/listen-address.js'

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

t.test('reads unix: and an absolute path of no more bytes than a socket address holds', t => {
  const longest = `/${'a'.repeat(104)}é`
  t.equal(Buffer.byteLength(longest), 107)
  for (const path of ['/run/sluice/proxy.sock', '/a', '/with space:and colon', longest]) {
    t.same(parseListenAddress(`unix:${path}`), { path })
    t.same(parseSingleAddress(`unix:${path}`), { path })
    t.equal(serializeListenAddress({ path }), `unix:${path}`)
    t.notOk(isTcp({ path }))
  }
  for (const path of ['', 'proxy.sock', './proxy.sock', '@abstract', '/a\0b', '\0a']) {
    const message = `expected unix: and an absolute path, found "unix:${path}"`
    t.throws(() => parseListenAddress(`unix:${path}`), new RangeError(message), JSON.stringify(path))
  }
  t.throws(
    () => parseListenAddress(`unix:${longest}b`),
    new RangeError(`expected a path of at most 107 bytes, found 108: "unix:${longest}b"`),
  )
  t.end()
})

t.test('reads systemd with a name, or without one where there may be several', t => {
  for (const name of ['proxy', 'sluice.socket', 'A-1_@', 'a'.repeat(255)]) {
    t.same(parseListenAddress(`systemd:${name}`), { descriptorName: name })
    t.same(parseSingleAddress(`systemd:${name}`), { descriptorName: name })
    t.equal(serializeListenAddress({ descriptorName: name }), `systemd:${name}`)
  }
  t.same(parseListenAddress('systemd'), { descriptorName: undefined })
  t.equal(serializeListenAddress({ descriptorName: undefined }), 'systemd')
  t.throws(() => parseSingleAddress('systemd'), /expected systemd:NAME, found "systemd"/)
  for (const name of ['', 'a:b', 'a b', 'é', '\x7f', 'a'.repeat(256)]) {
    t.throws(
      () => parseListenAddress(`systemd:${name}`),
      new RangeError(
        `expected systemd:NAME with the FileDescriptorName= of a socket unit, found "systemd:${name}"`,
      ),
    )
  }
  t.end()
})

t.test('where TLS is spoken it is an address and nothing else', t => {
  t.same(parseTcpAddress('127.0.0.1:1'), { host: '127.0.0.1', port: 1 })
  t.ok(isTcp(parseTcpAddress('127.0.0.1:1')))
  for (const text of ['unix:/a', 'systemd', 'systemd:tls']) t.throws(() => parseTcpAddress(text), RangeError)
  t.end()
})

t.test('a Unix socket has one spelling, so that one that is listed twice shows', async t => {
  t.same(parseListenAddress('unix:/x/./y/..//a.sock'), { path: '/x/a.sock' })
  const text = 'version: 1\nlisten: { proxy: ["unix:/a.sock"], admin: "unix:/./a.sock" }\n'
  t.throws(() => parseConfig(text), /listen\.admin: unix:\/a\.sock is listed twice under listen/)
})
