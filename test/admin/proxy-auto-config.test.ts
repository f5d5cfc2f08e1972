import { createContext, runInContext } from 'node:vm'
import t from 'tap'
import { type ProxyListeners, serializeProxyAutoConfig } from '../../src/admin/proxy-auto-config.js'
import { parseListenAddress, parseTcpAddress } from '../../src/config/listen-address.js'
import { parseHost } from '../../src/http/authority.js'

const listeners = (proxy: string[], tls?: string): ProxyListeners => ({
  proxy: proxy.map(parseListenAddress),
  tls: tls === undefined ? undefined : parseTcpAddress(tls),
})

/** What a browser finds by it. The functions that browsers have for it beside are not there: none may be needed. */
function find(asked: string, from: ProxyListeners, host: string, scheme = 'https'): string {
  const context = createContext({ url: `${scheme}://${host}/path?q`, host })
  return String(
    runInContext(`${serializeProxyAutoConfig(parseHost(asked), from)}\nFindProxyForURL(url, host)`, context),
  )
}

t.test('everything goes to the proxy, but for what is the machine of the browser', async t => {
  const from = listeners(['0.0.0.0:3128'])
  const ask = (host: string) => find('sluice.test', from, host)
  for (const host of [
    'a.test',
    '10.0.0.1',
    '[fd00::1]',
    'fd00::1',
    'localhost.test',
    'notlocalhost',
    '128.0.0.1',
    '127.0.0.1.test',
    '1127.0.0.1',
  ]) {
    t.equal(ask(host), 'PROXY sluice.test:3128', host)
  }
  for (const host of [
    'localhost',
    'LOCALHOST',
    'localhost.',
    'a.localhost',
    '127.0.0.1',
    '127.255.0.9',
    '::1',
    '[::1]',
  ]) {
    t.equal(ask(host), 'DIRECT', host)
  }
  for (const scheme of ['http', 'ws', 'wss', 'ftp']) {
    t.equal(find('sluice.test', from, 'a.test', scheme), 'PROXY sluice.test:3128', scheme)
  }
})

t.test(
  'the proxy is where the browser has found the admin listener, unless it listens elsewhere',
  async t => {
    const table: [string, ProxyListeners, string][] = [
      ['localhost', listeners(['127.0.0.1:3128']), 'PROXY localhost:3128'],
      ['127.0.0.1', listeners(['127.0.0.1:3128']), 'PROXY 127.0.0.1:3128'],
      ['[::1]', listeners(['[::]:3128']), 'PROXY [::1]:3128'],
      ['10.0.0.9', listeners(['0.0.0.0:3128']), 'PROXY 10.0.0.9:3128'],
      ['localhost', listeners(['10.0.0.5:3128']), 'PROXY 10.0.0.5:3128'],
      ['localhost', listeners(['[fd00::5]:3128']), 'PROXY [fd00::5]:3128'],
      ['sluice.test', listeners(['127.0.0.1:3128', '10.0.0.5:3129']), 'PROXY 10.0.0.5:3129'],
      ['localhost', listeners(['127.0.0.1:1', '10.0.0.5:2']), 'PROXY localhost:1; PROXY 10.0.0.5:2'],
      ['localhost', listeners(['127.0.0.1:1', '[::1]:1']), 'PROXY localhost:1; PROXY [::1]:1'],
      ['[::1]', listeners(['127.0.0.1:3128']), 'PROXY 127.0.0.1:3128'],
      ['127.0.0.1', listeners(['[::1]:3128']), 'PROXY [::1]:3128'],
      ['localhost', listeners(['[::1]:3128']), 'PROXY [::1]:3128'],
      ['localhost', listeners(['127.0.0.5:3128']), 'PROXY 127.0.0.5:3128'],
      ['127.0.0.1', listeners(['127.0.0.5:3128']), 'PROXY 127.0.0.5:3128'],
      ['127.0.0.5', listeners(['0.0.0.0:3128']), 'PROXY 127.0.0.5:3128'],
      ['localhost', listeners(['0.0.0.0:3128']), 'PROXY localhost:3128'],
      ['[::1]', listeners(['0.0.0.0:3128']), 'PROXY 127.0.0.1:3128'],
      ['[::ffff:10.0.0.9]', listeners(['0.0.0.0:3128']), 'PROXY 10.0.0.9:3128'],
      ['10.0.0.9', listeners(['[::]:3128']), 'PROXY 10.0.0.9:3128'],
      ['[fd00::9]', listeners(['[::]:3128']), 'PROXY [fd00::9]:3128'],
      ['[fd00::9]', listeners(['0.0.0.0:1', '10.0.0.5:2']), 'PROXY 10.0.0.5:2'],
      ['[fd00::9]', listeners(['127.0.0.1:1', '[::]:2']), 'PROXY [fd00::9]:2'],
      ['sluice.test', listeners(['127.0.0.1:3128']), 'PROXY 127.0.0.1:3128'],
      ['sluice.test', listeners(['127.0.0.1:3128'], '0.0.0.0:3129'), 'HTTPS sluice.test:3129'],
      [
        'sluice.test',
        listeners(['0.0.0.0:3128'], '0.0.0.0:3129'),
        'HTTPS sluice.test:3129; PROXY sluice.test:3128',
      ],
    ]
    for (const [asked, from, expected] of table)
      t.equal(find(asked, from, 'a.test'), expected, `${asked} ${expected}`)
  },
)

t.test('there is none where browsers cannot connect at all', async t => {
  const table: [string, string][] = [
    ['localhost', 'unix:/run/sluice.sock'],
    ['10.0.0.9', '127.0.0.1:3128'],
    ['[fd00::9]', '0.0.0.0:3128'],
  ]
  for (const [asked, proxy] of table)
    t.equal(serializeProxyAutoConfig(parseHost(asked), listeners([proxy])), undefined, `${asked} ${proxy}`)
})
