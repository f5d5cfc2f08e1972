import t from 'tap'
import { withProxy } from '../../src/cli/proxy-variables.js'

const ADDRESS = { host: '127.0.0.1', port: 3128 }
const JAVA =
  '-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128'

t.test('sets every spelling, keeps the rest, and leaves the program’s own servers alone', async t => {
  const url = 'http://127.0.0.1:3128'
  const own = 'localhost,127.0.0.1,::1'
  t.strictSame(withProxy({ PATH: '/bin', https_proxy: 'http://other.test', NO_PROXY: '*' }, ADDRESS), {
    PATH: '/bin',
    HTTP_PROXY: url,
    http_proxy: url,
    HTTPS_PROXY: url,
    https_proxy: url,
    ALL_PROXY: url,
    all_proxy: url,
    npm_config_proxy: url,
    npm_config_https_proxy: url,
    NO_PROXY: own,
    no_proxy: own,
    npm_config_noproxy: own,
    NODE_USE_ENV_PROXY: '1',
    JAVA_TOOL_OPTIONS: JAVA,
  })
})

t.test('puts the options for Java behind those that are there', async t => {
  for (const [present, expected] of [
    ['-Xmx1g -Dhttp.proxyPort=1', `-Xmx1g -Dhttp.proxyPort=1 ${JAVA}`],
    ['', JAVA],
    [undefined, JAVA],
  ] as const) {
    t.equal(withProxy({ JAVA_TOOL_OPTIONS: present }, ADDRESS)['JAVA_TOOL_OPTIONS'], expected)
  }
})
