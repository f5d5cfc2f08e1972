import { once } from 'node:events'
import { connect, createServer, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import type { ClientCertificate } from '../../src/tls/client-certificate.js'
import { parseAlternativeNames, readClientCertificate } from '../../src/listener/client-certificate.js'
import { secureContextOptions } from '../../src/listener/tls-server.js'
import { Authority, type Issued } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'

const skip = needs('openssl')

interface Terms {
  readonly clientCa?: string
  readonly crl?: string
}

/** The certificate of this client as read by a server with these authorities. */
async function reads(
  t: Test,
  host: Issued,
  terms: Terms,
  client?: Pick<Issued, 'cert' | 'key'>,
): Promise<ClientCertificate | undefined> {
  const { clientCa } = terms
  const options = { requestCert: clientCa !== undefined, rejectUnauthorized: false }
  const server = createServer({ ...secureContextOptions({ ...host, ...terms }), ...options })
  const secured = once(server, 'secureConnection') as Promise<[TLSSocket]>
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...client })
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  const [accepted] = await secured
  accepted.on('error', () => {})
  try {
    return readClientCertificate(accepted)
  } finally {
    accepted.destroy()
    server.close()
  }
}

function withoutChain(certificate: ClientCertificate | undefined): object {
  const { chain: _chain, ...rest } = certificate?.kind === 'valid' ? certificate : { chain: [] }
  return rest
}

/** An extension with general names in DER, each shorter than 126 bytes. */
function der(...names: readonly (readonly [tag: number, content: string | Buffer])[]): string {
  const encoded = names.map(([tag, content]) => {
    const bytes = Buffer.from(content)
    return Buffer.concat([Buffer.from([tag, bytes.length]), bytes])
  })
  const body = Buffer.concat(encoded)
  const all = Buffer.concat([
    Buffer.from(body.length < 128 ? [0x30, body.length] : [0x30, 0x81, body.length]),
    body,
  ])
  return `DER:${[...all].map(byte => byte.toString(16).padStart(2, '0')).join(':')}`
}

const [EMAIL, DNS, URI, IP, RID] = [0x81, 0x82, 0x86, 0x87, 0x88]

t.test('a certificate issued under client_ca is valid, with its names and its subject', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const host = ca.issue({ san: 'DNS:localhost' })
  const client = ca.issue({
    subject: '/O=Example, Inc./OU=build/OU=release/CN=Käfer/emailAddress=ci@example.com/unnamed=number',
    san: 'DNS:CI.Example,URI:spiffe://example/CI,email:ci@example.com,IP:10.0.0.1,IP:FD00:0:0:0::0:1',
  })
  t.strictSame(withoutChain(await reads(t, host, { clientCa: ca.cert }, client)), {
    kind: 'valid',
    names: ['ci.example', 'spiffe://example/CI', 'ci@example.com', '10.0.0.1', 'fd00::1'],
    subject: [
      { attribute: 'O', value: 'Example, Inc.' },
      { attribute: 'OU', value: 'build' },
      { attribute: 'OU', value: 'release' },
      { attribute: 'CN', value: 'Käfer' },
      { attribute: 'emailAddress', value: 'ci@example.com' },
      { attribute: '1.2.3.4', value: 'number' },
    ],
  })
})

t.test('a certificate without alternative names has none, and its CN is not a name', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const client = ca.issue({ subject: '/CN=ci.example' })
  t.strictSame(withoutChain(await reads(t, ca.issue(), { clientCa: ca.cert }, client)), {
    kind: 'valid',
    names: [],
    subject: [{ attribute: 'CN', value: 'ci.example' }],
  })
})

t.test('no text within a name becomes a name of its own', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const host = ca.issue()
  const evil = [
    [DNS, 'a, DNS:admin.example'],
    [DNS, 'a", DNS:admin.example'],
    [DNS, '"admin.example"'],
    [DNS, 'admin.example\0.evil.example'],
    [DNS, 'admin.example\n'],
    [DNS, 'x\nDNS:admin.example'],
    [DNS, "a', DNS:admin.example"],
    [DNS, 'admin.example\\'],
    [DNS, Buffer.from('admin\xe9.example', 'latin1')],
    [URI, 'x:y, URI:spiffe://example/admin'],
    [URI, 'spiffe://example/admin\0'],
    [EMAIL, 'a@b, DNS:admin.example'],
    [EMAIL, 'admin@example.com\0'],
    [IP, Buffer.from([10, 0, 0])],
    [RID, Buffer.from([0x2a, 3, 4])],
  ] as const
  for (const [tag, content] of evil) {
    const client = ca.issue({ san: der([tag, content], [DNS, 'own.example']) })
    const read = await reads(t, host, { clientCa: ca.cert }, client)
    t.equal(read?.kind, 'valid', JSON.stringify(content))
    t.strictSame(read?.kind === 'valid' && read.names, ['own.example'], JSON.stringify(content))
  }
})

t.test('a name of one kind in the form of another is not used', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const san = der(
    [DNS, 'spiffe://example/admin'],
    [DNS, 'admin@example.com'],
    [DNS, '10.0.0.1'],
    [DNS, 'fd00::1'],
    [EMAIL, 'admin.example'],
    [EMAIL, '10.0.0.1'],
    [EMAIL, 'x:y@example.com'],
    [URI, 'admin.example'],
    [URI, '10.0.0.1'],
    [URI, 'fd00:1::10'],
    [URI, 'admin@example.com'],
    [DNS, 'own.example'],
  )
  const read = await reads(t, ca.issue(), { clientCa: ca.cert }, ca.issue({ san }))
  t.same(read?.kind === 'valid' && read.names, ['own.example'])
})

t.test('without a certificate, or a request for one, there is none', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const host = ca.issue()
  t.equal(await reads(t, host, { clientCa: ca.cert }), undefined)
  t.equal(await reads(t, host, {}, ca.issue()), undefined)
})

t.test('an invalid certificate has the reason', { skip }, async t => {
  const folder = t.testdir()
  const ca = Authority.make(folder)
  const host = ca.issue()
  const other = Authority.make(folder, 'other')
  const good = ca.issue({ usage: 'clientAuth' })
  const revoked = ca.issue()
  const terms = { clientCa: ca.cert, crl: ca.revoke([revoked]) }
  const table = [
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', terms, other.issue()],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', { clientCa: ca.cert }, other],
    ['CERT_HAS_EXPIRED', terms, ca.issue({ days: -1 })],
    ['INVALID_PURPOSE', terms, ca.issue({ usage: 'serverAuth' })],
    ['CERT_REVOKED', terms, revoked],
    ['CRL_HAS_EXPIRED', { ...terms, crl: ca.revoke([], false) }, good],
    ['UNABLE_TO_GET_CRL', { ...terms, crl: other.revoke([]) }, good],
  ] as const
  for (const [error, terms, client] of table) {
    t.same(await reads(t, host, terms, client), { kind: 'invalid', error })
  }
  t.equal((await reads(t, host, terms, good))?.kind, 'valid', 'but this one is')
})

t.test('every authority and every revocation list of a file is used', { skip }, async t => {
  const folder = t.testdir()
  const cas = ['one', 'two', 'three'].map(name => Authority.make(folder, name))
  const clientCa = cas.map(({ cert }) => cert).join('some text between\n')
  const revoked = cas.map(ca => ca.issue())
  const good = cas.map(ca => ca.issue())
  const crl = cas.map((ca, i) => ca.revoke(revoked.slice(i, i + 1))).join('\n')
  const [host] = good
  if (host === undefined) throw new Error('none')
  for (const client of good) t.equal((await reads(t, host, { clientCa, crl }, client))?.kind, 'valid')
  for (const client of revoked) {
    t.same(await reads(t, host, { clientCa, crl }, client), { kind: 'invalid', error: 'CERT_REVOKED' })
  }
})

t.test('a certificate of an intermediate authority is verified up to the root', { skip }, async t => {
  const root = Authority.make(t.testdir(), 'root')
  const below = root.issueAuthority('below')
  const host = root.issue()
  const { cert, key } = below.issue()
  const both = root.cert + below.cert
  t.equal((await reads(t, host, { clientCa: both }, { cert, key }))?.kind, 'valid')
  t.equal((await reads(t, host, { clientCa: root.cert }, { cert: cert + below.cert, key }))?.kind, 'valid')
  t.equal((await reads(t, host, { clientCa: root.cert }, { cert, key }))?.kind, 'invalid')
  const sent = await reads(t, host, { clientCa: root.cert }, { cert: cert + below.cert, key })
  const subjects = sent?.kind === 'valid' ? sent.chain.map(({ subject }) => subject) : []
  t.same(subjects, ['CN=x', 'CN=below'], 'with what it sent')
  const crl = root.revoke([]) + below.revoke([])
  t.equal((await reads(t, host, { clientCa: both, crl }, { cert, key }))?.kind, 'valid')
  const revoked = root.revoke([below]) + below.revoke([])
  t.same(await reads(t, host, { clientCa: both, crl: revoked }, { cert, key }), {
    kind: 'invalid',
    error: 'CERT_REVOKED',
  })
})

t.test(
  'a certificate whose subject contains a value that is not text has no attributes, and is valid',
  async t => {
    // Node omits the subject then.
    const certificate = { subjectAltName: 'DNS:own.example', toLegacyObject: () => ({}) }
    const socket = { authorized: true, getPeerX509Certificate: () => certificate } as unknown as TLSSocket
    t.match(readClientCertificate(socket), { kind: 'valid', names: ['own.example'], subject: [] })
  },
)

t.test('parses each kind of name (RFC 5280 §4.2.1.6)', async t => {
  t.same(
    parseAlternativeNames(
      'DNS:ci.example, URI:spiffe://example/ci, email:ci@example.com, IP Address:10.0.0.1, IP Address:fd00::1, ' +
        'Registered ID:1.2.3.4, DirName:CN=x, othername:<unsupported>',
    ),
    [
      { kind: 'DNS', value: 'ci.example' },
      { kind: 'URI', value: 'spiffe://example/ci' },
      { kind: 'email', value: 'ci@example.com' },
      { kind: 'IP Address', value: '10.0.0.1' },
      { kind: 'IP Address', value: 'fd00::1' },
      { kind: 'Registered ID', value: '1.2.3.4' },
      { kind: 'DirName', value: 'CN=x' },
      { kind: 'othername', value: '<unsupported>' },
    ],
  )
})

t.test('a text in quotes is one name, whatever it contains', async t => {
  t.same(parseAlternativeNames(String.raw`DNS:"a\u002c DNS:admin", DNS:b`), [
    { kind: 'DNS', value: 'a, DNS:admin' },
    { kind: 'DNS', value: 'b' },
  ])
  t.same(parseAlternativeNames(String.raw`DNS:"\"\\\u0000\u000a'"`), [{ kind: 'DNS', value: '"\\\0\n\'' }])
  t.same(parseAlternativeNames('DNS:""'), [{ kind: 'DNS', value: '' }])
})

t.test('refuses a line that is not completely of that form', async t => {
  for (const line of [
    '',
    'DNS',
    'DNS:a,',
    'DNS:a, ',
    'DNS:a,DNS:b',
    'DNS:a,  DNS:b',
    ', DNS:a',
    'DNS:a, , DNS:b',
    'DNS:a b\n',
    'DNS:a\0',
    "DNS:a'b",
    'DNS:a"b"',
    'DNS:a\\u002c',
    'DNS:"a',
    'DNS:"a"b',
    'DNS:"a, b"',
    'DNS:"a\\n"',
    'DNS:"\\u002"',
    'DNS:"\\u002C"',
    '"DNS:a"',
    ':a',
  ]) {
    t.throws(() => parseAlternativeNames(line), RangeError, JSON.stringify(line))
  }
})
