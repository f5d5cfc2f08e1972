import { sign, X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Authorities } from '../../src/tls/authorities.js'
import type { ClientCertificate } from '../../src/tls/client-certificate.js'
import { members, read } from '../../src/tls/der.js'
import { Authority, type Issued, openssl } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'

const skip = needs('openssl')

/** The state of a client with this certificate chain after its handshake. */
function valid(...sent: Pick<Issued, 'cert'>[]): ClientCertificate {
  const chain = sent.map(({ cert }) => new X509Certificate(cert))
  return { kind: 'valid', names: [], subject: [], chain }
}

const kindOf = (files: { clientCa?: string; crl?: string }, ...sent: Pick<Issued, 'cert'>[]) =>
  new Authorities(files, Date.now()).judge(valid(...sent))?.kind

t.test('a certificate is valid as long as its authority is (RFC 5280 §6.1)', { skip }, async t => {
  const folder = t.testdir({ again: {} })
  const [ca, other] = [Authority.make(folder), Authority.make(folder, 'other')]
  /** Another key with the same name. */
  const again = Authority.make(join(folder, 'again'))
  const client = ca.issue()
  t.equal(kindOf({ clientCa: ca.cert }, client), 'valid')
  t.equal(kindOf({ clientCa: other.cert + ca.cert }, client), 'valid')
  t.equal(kindOf({ clientCa: other.cert }, client), 'invalid')
  t.equal(kindOf({ clientCa: again.cert }, client), 'invalid')
  // If a certificate does not name its key, only the signature identifies it.
  writeFileSync(join(folder, 'unnamed'), 'authorityKeyIdentifier=none\nsubjectKeyIdentifier=none\n')
  const request = [
    'req',
    '-new',
    '-key',
    client.keyFile,
    '-config',
    'settings',
    '-subj',
    '/CN=x',
    '-out',
    'csr',
  ]
  openssl(folder, ...request)
  const signing = ['-CA', ca.certFile, '-CAkey', ca.keyFile, '-set_serial', '9', '-extfile', 'unnamed']
  const unnamed = { cert: openssl(folder, 'x509', '-req', '-in', 'csr', ...signing) }
  t.equal(kindOf({ clientCa: ca.cert }, unnamed), 'valid')
  t.equal(kindOf({ clientCa: again.cert }, unnamed), 'invalid')
  t.equal(kindOf({}, client), 'invalid')
  t.equal(kindOf({ clientCa: other.cert }, client, ca), 'invalid', 'whatever the client sends with it')
})

t.test(
  'a chain may use certificates that the client sent, and ends at an authority of the file',
  { skip },
  async t => {
    const root = Authority.make(t.testdir(), 'root')
    const below = root.issueAuthority('below')
    const client = below.issue()
    t.equal(kindOf({ clientCa: root.cert }, client, below), 'valid')
    t.equal(kindOf({ clientCa: root.cert + below.cert }, client), 'valid')
    t.equal(kindOf({ clientCa: root.cert }, client), 'invalid')
    t.equal(kindOf({ clientCa: below.cert }, client, below), 'invalid')
  },
)

t.test('authorities that have issued each other are not trusted', { skip }, async t => {
  const folder = t.testdir()
  const [a, b, other] = ['a', 'b', 'other'].map(name => Authority.make(folder, name))
  if (a === undefined || b === undefined || other === undefined) throw new Error('three were made')
  writeFileSync(join(folder, 'authority'), 'basicConstraints=CA:TRUE\n')
  /** A certificate with the name and key of `of`, issued by another authority. */
  const cross = (of: Authority, name: string, by: Authority) => {
    openssl(
      folder,
      ...['req', '-new', '-key', of.keyFile, '-config', 'settings', '-subj', `/CN=${name}`, '-out', 'csr'],
    )
    const signing = ['-CA', by.certFile, '-CAkey', by.keyFile, '-set_serial', '9', '-extfile', 'authority']
    return { cert: openssl(folder, 'x509', '-req', '-in', 'csr', ...signing) }
  }
  const sent = [a.issue(), cross(a, 'a', b), cross(b, 'b', a)]
  t.equal(kindOf({ clientCa: b.cert }, ...sent), 'valid')
  t.equal(kindOf({ clientCa: other.cert }, ...sent), 'invalid')
})

t.test('a revoked certificate is not valid, nor is one issued under it', { skip }, async t => {
  const folder = t.testdir()
  const [root, other] = [Authority.make(folder, 'root'), Authority.make(folder, 'other')]
  const below = root.issueAuthority('below')
  const [client, next] = [below.issue(), below.issue()]
  const clientCa = root.cert + below.cert + other.cert
  const none = root.revoke([]) + below.revoke([])
  t.equal(kindOf({ clientCa, crl: none }, client), 'valid')
  const one = root.revoke([]) + below.revoke([client])
  t.equal(kindOf({ clientCa, crl: one }, client), 'invalid')
  t.equal(kindOf({ clientCa, crl: one }, next), 'valid')
  const same = other.revoke([other.issue(), other.issue()])
  t.equal(kindOf({ clientCa, crl: none + same }, next), 'valid', "another authority's of the same number")
  t.equal(kindOf({ clientCa, crl: root.revoke([]) }, client), 'invalid', 'where its authority has no list')
  t.equal(kindOf({ clientCa, crl: root.revoke([below]) + below.revoke([]) }, next), 'invalid')
})

t.test('an invalid certificate stays invalid, and a client without one stays without', async t => {
  const authorities = new Authorities({}, 0)
  t.equal(authorities.judge(undefined), undefined)
  const expired: ClientCertificate = { kind: 'invalid', error: 'CERT_HAS_EXPIRED' }
  t.equal(authorities.judge(expired), expired)
})

t.test('connections of one client are verified once', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const [client, next] = [ca.issue(), ca.issue()]
  const authorities = new Authorities({ clientCa: ca.cert, crl: ca.revoke([client]) }, Date.now())
  for (const expected of ['invalid', 'valid', 'invalid', 'valid']) {
    t.equal(authorities.judge(valid(expected === 'valid' ? next : client))?.kind, expected)
  }
})

t.test('the newest list of an authority decides, while it is valid', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const client = ca.issue()
  const files = (...lists: string[]) => ({ clientCa: ca.cert, crl: lists.join('') })
  const [none, noneThen] = [ca.revoke([]), ca.revoke([], false)]
  const revokedThen = ca.revoke([client], false)
  const revoked = ca.revoke([])
  t.equal(kindOf(files(revokedThen, none), client), 'valid')
  t.equal(kindOf(files(none, revokedThen), client), 'valid')
  t.equal(kindOf(files(noneThen, revoked), client), 'invalid')
  t.equal(kindOf(files(noneThen), client), 'invalid', 'it has expired')
  const before = new Authorities(files(none), Date.now() - 3_600_000)
  t.equal(before.judge(valid(client))?.kind, 'invalid', 'it does not hold yet')
})

t.test('a list belongs to the authority that has signed it, whatever its name', { skip }, async t => {
  const folder = t.testdir({ again: {} })
  const [ca, again] = [Authority.make(folder), Authority.make(join(folder, 'again'))]
  const [client, namesake] = [ca.issue(), again.issue()]
  const clientCa = ca.cert + again.cert
  const crl = ca.revoke([]) + again.revoke([namesake])
  t.equal(kindOf({ clientCa, crl }, client), 'valid', 'of the same issuer and number')
  t.equal(kindOf({ clientCa, crl }, namesake), 'invalid')
  t.equal(kindOf({ clientCa, crl: again.revoke([]) }, client), 'invalid', 'its own authority has none')
})

t.test('a chain has at most ten certificates', { skip }, async t => {
  const root = Authority.make(t.testdir(), 'root')
  const chain = [root.issueAuthority('a1')]
  for (let i = 2; i <= 9; i++) chain.unshift((chain[0] ?? root).issueAuthority(`a${i}`))
  const [ninth = root, eighth = root] = chain
  const clientCa = root.cert + chain.map(({ cert }) => cert).join('')
  t.equal(kindOf({ clientCa }, eighth.issue()), 'valid')
  t.equal(kindOf({ clientCa }, ninth.issue()), 'invalid')
})

t.test('certificates that seem to have issued each other are verified once each', { skip }, async t => {
  const folder = t.testdir()
  const [p, q, other] = ['p', 'q', 'other'].map(name => Authority.make(folder, name))
  if (p === undefined || q === undefined || other === undefined) throw new Error('three were made')
  writeFileSync(join(folder, 'authority'), 'basicConstraints=CA:TRUE\n')
  let serial = 100
  const cross = (of: Authority, name: string, by: Authority) => {
    const subject = ['-config', 'settings', '-subj', `/CN=${name}`, '-out', 'csr']
    openssl(folder, 'req', '-new', '-key', of.keyFile, ...subject)
    const signing = ['-CA', by.certFile, '-CAkey', by.keyFile, '-set_serial', String(++serial)]
    return { cert: openssl(folder, 'x509', '-req', '-in', 'csr', ...signing, '-extfile', 'authority') }
  }
  const junk = [1, 2, 3, 4, 5].flatMap(() => [cross(p, 'p', q), cross(q, 'q', p)])
  // Searching every path through all of them would take longer than this test may.
  t.equal(kindOf({ clientCa: other.cert }, p.issue(), ...junk), 'invalid')
})

/** Signed again with a length that is invalid in DER: OpenSSL accepts it. */
function withoutLength({ cert }: Pick<Issued, 'cert'>, by: Issued): Pick<Issued, 'cert'> {
  const [signed, algorithm] = members(read(new X509Certificate(cert).raw).content)
  if (signed === undefined || algorithm === undefined) throw new Error('a certificate has both')
  const part = Buffer.concat([Buffer.from([0x30, 0x80]), signed.content, Buffer.alloc(2)])
  const signature = sign('sha256', part, by.key)
  const bits = Buffer.concat([Buffer.from([0x03, signature.length + 1, 0]), signature])
  const whole = Buffer.concat([Buffer.from([0x30, 0x80]), part, algorithm.whole, bits, Buffer.alloc(2)])
  return { cert: `-----BEGIN CERTIFICATE-----\n${whole.toString('base64')}\n-----END CERTIFICATE-----\n` }
}

t.test('a certificate that cannot be parsed is not valid, and stops nothing', { skip }, async t => {
  const folder = t.testdir()
  const [ca, junk, other] = [
    Authority.make(folder),
    Authority.make(folder, 'junk'),
    Authority.make(folder, 'other'),
  ]
  writeFileSync(join(folder, 'authority'), 'basicConstraints=CA:TRUE\n')
  const request = ['-config', 'settings', '-subj', '/CN=ca', '-out', 'csr']
  openssl(folder, 'req', '-new', '-key', ca.keyFile, ...request)
  const signing = ['-CA', junk.certFile, '-CAkey', junk.keyFile, '-set_serial', '9', '-extfile', 'authority']
  const between = withoutLength({ cert: openssl(folder, 'x509', '-req', '-in', 'csr', ...signing) }, junk)
  const files = { clientCa: other.cert, crl: ca.revoke([]) + other.revoke([]) }
  t.equal(kindOf(files, ca.issue(), between, junk), 'invalid')
})
