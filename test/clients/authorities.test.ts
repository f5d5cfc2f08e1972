import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Authorities } from '../../src/clients/authorities.js'
import type { ClientCertificate } from '../../src/clients/certificate.js'
import { Authority, type Issued, openssl } from '../kit/authority.js'
import { needs } from '../system/command.js'

const skip = needs('openssl')

/** What a client with this certificate, and those behind it, was at its handshake. */
function valid(...sent: Pick<Issued, 'cert'>[]): ClientCertificate {
  const chain = sent.map(({ cert }) => new X509Certificate(cert))
  return { kind: 'valid', names: [], subject: [], chain }
}

const kindOf = (files: { clientCa?: string; crl?: string }, ...sent: Pick<Issued, 'cert'>[]) =>
  new Authorities(files).judge(valid(...sent))?.kind

t.test('a certificate holds as long as its authority does (RFC 5280 §6.1)', { skip }, async t => {
  const folder = t.testdir({ again: {} })
  const [ca, other] = [Authority.make(folder), Authority.make(folder, 'other')]
  /** Another key with the same name. */
  const again = Authority.make(join(folder, 'again'))
  const client = ca.issue()
  t.equal(kindOf({ clientCa: ca.cert }, client), 'valid')
  t.equal(kindOf({ clientCa: other.cert + ca.cert }, client), 'valid')
  t.equal(kindOf({ clientCa: other.cert }, client), 'invalid')
  t.equal(kindOf({ clientCa: again.cert }, client), 'invalid')
  // Which key it was signed with, the signature alone tells of one that does not name it.
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

t.test('a chain may go by what the client sent, and ends at an authority of the file', { skip }, async t => {
  const root = Authority.make(t.testdir(), 'root')
  const below = root.issueAuthority('below')
  const client = below.issue()
  t.equal(kindOf({ clientCa: root.cert }, client, below), 'valid')
  t.equal(kindOf({ clientCa: root.cert + below.cert }, client), 'valid')
  t.equal(kindOf({ clientCa: root.cert }, client), 'invalid')
  t.equal(kindOf({ clientCa: below.cert }, client, below), 'invalid')
})

t.test('authorities that have issued each other lead nowhere', { skip }, async t => {
  const folder = t.testdir()
  const [a, b, other] = ['a', 'b', 'other'].map(name => Authority.make(folder, name))
  if (a === undefined || b === undefined || other === undefined) throw new Error('three were made')
  writeFileSync(join(folder, 'authority'), 'basicConstraints=CA:TRUE\n')
  /** The same name and key as `of` has, issued by another. */
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

t.test('one that a list revokes does not hold, nor what was issued under it', { skip }, async t => {
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

t.test('what was not valid stays that, and a client without one stays without', async t => {
  const authorities = new Authorities({})
  t.equal(authorities.judge(undefined), undefined)
  const expired: ClientCertificate = { kind: 'invalid', error: 'CERT_HAS_EXPIRED' }
  t.equal(authorities.judge(expired), expired)
})

t.test('connections of one client are looked at once', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const [client, next] = [ca.issue(), ca.issue()]
  const authorities = new Authorities({ clientCa: ca.cert, crl: ca.revoke([client]) })
  for (const expected of ['invalid', 'valid', 'invalid', 'valid']) {
    t.equal(authorities.judge(valid(expected === 'valid' ? next : client))?.kind, expected)
  }
})
