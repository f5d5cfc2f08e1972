import t from 'tap'
import { parseConfig } from '../../src/index.js'
import { certificateExpiries } from '../../src/tls/certificate-expiry.js'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { needs } from '../kit/processes/command.js'
import { Authority } from '../kit/peers/authority.js'

const DAY_MS = 86_400_000

t.test(
  'of the own chain the first certificate to expire counts, of authorities the last',
  { skip: needs('openssl') },
  async t => {
    const folder = t.testdir()
    const ca = Authority.make(folder)
    const [short, long] = [5, 90].map(days => ca.issue({ san: 'DNS:localhost', days }))
    if (short === undefined || long === undefined) throw new Error('two')
    const chain = join(folder, 'chain.pem')
    writeFileSync(chain, `${long.cert}${short.cert}`)
    const bundle = join(folder, 'bundle.pem')
    writeFileSync(bundle, `${short.cert}${long.cert}`)
    const { config, files } = parseConfig(
      `version: 1
listen: { tls: { address: "127.0.0.1:0", cert: ${chain}, key: ${long.keyFile}, client_ca: ${ca.certFile} } }
parent: { url: "https://parent.test:1", ca: ${short.certFile} }
origins:
  - { path: /a, forward: "http://127.0.0.1:1" }
  - { path: /b, forward: "https://127.0.0.1:1", ca: ${bundle} }
`,
    )
    const found = certificateExpiries(config, files)
    t.same(
      found.map(({ key }) => key),
      ['listen.tls.cert', 'listen.tls.client_ca', 'parent.ca', 'origins[1].ca'],
    )
    const days = found.map(({ expiresMs }) => Math.round((expiresMs - Date.now()) / DAY_MS))
    t.same([days[0], days[2], days[3]], [5, 5, 90])
  },
)

t.test('a configuration without certificates has none that expire', async t => {
  const { config, files } = parseConfig('version: 1')
  t.same(certificateExpiries(config, files), [])
})
