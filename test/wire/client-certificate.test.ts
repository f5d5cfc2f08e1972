/** Client certificates identify the client, from the handshake to the response (RFC 8446 §4.4.2). */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { needs } from '../kit/processes/command.js'
import { Authority, type Issued } from '../kit/peers/authority.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { readResponse } from '../kit/peers/read-response.js'
import { testProxy } from '../kit/proxies/test-proxy.js'
import { tlsClient } from '../kit/peers/tls-client.js'

const CLIENTS = `
clients:
  - { name: ci, certificate: { san: [ci.example] }, rules: [near] }
  - { name: robots, certificate: { subject: ["OU=robots"] }, rules: [] }
  - { name: both, certificate: { subject: ["CN=both"] }, basic: { htpasswd_file: USERS } }
`
/** Of the password "secret", at the lowest cost. */
const USERS = 'ann:$2b$04$DP7wupLd4Qdpzx4wKxPl6.Z.ZzRTsx4zuGsu0bOHwUB1wPbsIVohC\n'

t.test(
  'the content of a certificate decides, and only while it is valid',
  { skip: needs('openssl') },
  async t => {
    const folder = t.testdir()
    const server = Authority.make(folder, 'server')
    const ca = Authority.make(folder, 'clients')
    const stranger = Authority.make(folder, 'stranger')
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text)
      return join(folder, name)
    }
    const ci = ca.issue({ san: 'DNS:ci.example' })
    const revoked = ca.issue({ san: 'DNS:ci.example' })
    const { certFile, keyFile } = server.issue({ san: 'DNS:localhost' })
    const crl = file('clients.crl', ca.revoke([revoked]))
    const origin = await rawOrigin(t)
    const proxy = await testProxy(
      t,
      `listen:
  proxy: ["127.0.0.1:0"]
  admin: "127.0.0.1:0"
  tls: { address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile}, client_ca: ${ca.certFile}, crl: ${crl} }
rules: { near: { hosts: ["127.0.0.1"], ports: [any], addresses: ["127.0.0.1"] } }
${CLIENTS.replace('USERS', file('users', USERS))}`,
    )
    const cases: readonly [
      name: string,
      certificate: Issued | undefined,
      status: number,
      expected: object,
    ][] = [
      ['one of the list', ci, 200, { client: 'ci', decision: 'allow' }],
      ['revoked', revoked, 403, { client: undefined, reason: 'certificate' }],
      [
        'expired',
        ca.issue({ san: 'DNS:ci.example', days: -1 }),
        403,
        { client: undefined, reason: 'certificate' },
      ],
      [
        'of another authority',
        stranger.issue({ san: 'DNS:ci.example' }),
        403,
        { client: undefined, reason: 'certificate' },
      ],
      ['of no entry', ca.issue({ san: 'DNS:other.example' }), 403, { client: undefined, reason: 'client' }],
      [
        'a common name that looks like one',
        ca.issue({ subject: '/CN=ci.example' }),
        403,
        { client: undefined, reason: 'client' },
      ],
      ['of an entry without rules', ca.issue({ subject: '/OU=robots' }), 403, { client: 'robots' }],
      [
        'of an entry that wants a password too',
        ca.issue({ subject: '/CN=both' }),
        407,
        { client: undefined, reason: 'credentials_missing' },
      ],
      ['none at all', undefined, 403, { client: undefined, reason: 'client' }],
    ]
    for (const [index, [name, issued, status, expected]] of cases.entries()) {
      const shown = issued === undefined ? {} : { cert: issued.cert, key: issued.key }
      const client = await tlsClient(t, proxy.tlsPort, { ca: server.cert, ...shown })
      client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: ${origin.authority}\r\n\r\n`)
      t.equal((await readResponse(client)).status, status, name)
      const decision = await proxy.event('decision', index + 1)
      t.match(decision, expected, name)
      t.equal('client' in expected && expected.client === undefined && 'client' in decision, false, name)
      client.destroy()
    }
    t.equal(origin.accepted, 1)
  },
)
