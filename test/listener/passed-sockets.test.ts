/** Sockets that systemd passed on (sd_listen_fds(3)), and which of them a listener takes. */
import t from 'tap'
import { parseListenAddress } from '../../src/config/listen-address.js'
import { bindables, NOTHING_PASSED, parsePassedSockets } from '../../src/listener/passed-sockets.js'

const parse = (count?: string, pid?: string, names?: string) =>
  parsePassedSockets({ LISTEN_FDS: count, LISTEN_PID: pid, LISTEN_FDNAMES: names }, 77)

t.test('reads how many there are and what they are called', async t => {
  t.same(parse('2', '77', 'proxy:admin').sockets, [
    { fd: 3, name: 'proxy' },
    { fd: 4, name: 'admin' },
  ])
  t.same(
    parse('3', '77', 'a').sockets.map(({ name }) => name),
    ['a', 'unknown', 'unknown'],
  )
  t.same(parse('1', '77').sockets, [{ fd: 3, name: 'unknown' }])
  t.equal(parse('1024', '77').sockets.at(-1)?.fd, 1026)
})

t.test('takes none that is not for this process, and says why', async t => {
  for (const [found, absence] of [
    [parse(), 'LISTEN_FDS is not set'],
    [parse(undefined, '77', 'proxy'), 'LISTEN_FDS is not set'],
    [parse('1'), 'LISTEN_PID is not set, and this process is 77'],
    [parse('1', '78'), 'LISTEN_PID is 78, and this process is 77'],
    [parse('1', '077'), 'LISTEN_PID is 077, and this process is 77'],
    [parse('0', '77'), 'LISTEN_FDS is "0"'],
    [parse('-1', '77'), 'LISTEN_FDS is "-1"'],
    [parse('1e1', '77'), 'LISTEN_FDS is "1e1"'],
    [parse('1025', '77'), 'LISTEN_FDS is "1025"'],
  ] as const) {
    t.same(found, { sockets: [], absence })
  }
})

const listen = (proxy: readonly string[], admin?: string) => ({
  proxy: proxy.map(parseListenAddress),
  admin: admin === undefined ? (false as const) : parseListenAddress(admin),
  adminHosts: [],
  socketMode: 0o600,
})
const PASSED = parse('4', '77', 'proxy:admin:proxy:other')

t.test('a name is every socket that has it, once each', async t => {
  const { proxy, admin } = bindables(
    listen(['127.0.0.1:1', 'systemd:proxy', 'unix:/a'], 'systemd:admin'),
    PASSED,
  )
  t.same(proxy, [
    { host: '127.0.0.1', port: 1 },
    { fd: 3, name: 'proxy', key: 'listen.proxy' },
    { fd: 5, name: 'proxy', key: 'listen.proxy' },
    { path: '/a', mode: 0o600 },
  ])
  t.same(admin, { fd: 4, name: 'admin', key: 'listen.admin' })
})

t.test('systemd alone is what is neither called admin nor named elsewhere', async t => {
  const fds = (proxy: readonly string[], admin?: string) =>
    bindables(listen(proxy, admin), PASSED).proxy.map(address => ('fd' in address ? address.fd : undefined))
  t.same(fds(['systemd']), [3, 5, 6])
  t.same(fds(['systemd', 'systemd:proxy']), [6, 3, 5])
  t.same(fds(['systemd'], 'systemd:other'), [3, 5])
  t.same(bindables(listen(['127.0.0.1:1'], 'unix:/b')).admin, { path: '/b', mode: 0o600 })
  t.equal(bindables(listen(['127.0.0.1:1'])).admin, undefined)
})

t.test('a key that finds nothing, or more than it takes, says what was passed', async t => {
  for (const [proxy, admin, passed, message] of [
    [
      ['systemd:web'],
      undefined,
      PASSED,
      'listen.proxy is systemd:web, and systemd passed "proxy" (descriptor 3), "admin" (descriptor 4), "proxy" (descriptor 5), "other" (descriptor 6)',
    ],
    [
      ['systemd'],
      undefined,
      parse('1', '77', 'admin'),
      'listen.proxy is systemd, and systemd passed "admin" (descriptor 3)',
    ],
    [
      ['127.0.0.1:1'],
      'systemd:admin',
      NOTHING_PASSED,
      'listen.admin is systemd:admin, and systemd passed no socket: LISTEN_FDS is not set',
    ],
    [
      ['127.0.0.1:1'],
      'systemd:proxy',
      parse('2', '77', 'proxy:proxy'),
      'listen.admin takes one socket, and systemd passed "proxy" (descriptor 3), "proxy" (descriptor 4)',
    ],
  ] as const) {
    t.throws(() => bindables(listen(proxy, admin), passed), new Error(message))
  }
})
