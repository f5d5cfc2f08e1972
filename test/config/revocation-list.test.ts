import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseCertificateId, parseRevocationList } from '../../src/config/revocation-list.js'
import { Authority, openssl } from '../kit/authority.js'
import { needs } from '../system/command.js'

const skip = needs('openssl')

const idOf = (pem: string) => parseCertificateId(new X509Certificate(pem).raw)
const bytesOf = (pem: string) => Buffer.from(pem.replace(/-----[^-]+-----/g, ''), 'base64')
const pemOf = (bytes: Buffer) =>
  `-----BEGIN X509 CRL-----\n${bytes.toString('base64')}\n-----END X509 CRL-----\n`

t.test('names what is revoked by issuer and serial number (RFC 5280 §5.1)', { skip }, async t => {
  const folder = t.testdir()
  const [ca, other] = [Authority.make(folder), Authority.make(folder, 'other')]
  const [kept, ...revoked] = [ca.issue(), ca.issue(), ca.issue()]
  t.same(parseRevocationList(ca.revoke([])), { issuer: idOf(kept.cert).issuer, serials: new Set() })
  const list = parseRevocationList(ca.revoke(revoked))
  t.same(list, { issuer: idOf(kept.cert).issuer, serials: new Set(['02', '03']) })
  t.same(idOf(kept.cert), { issuer: list.issuer, serial: '01' })
  t.not(idOf(other.issue().cert).issuer, list.issuer)
  t.equal(idOf(ca.cert).issuer, list.issuer, 'an authority has issued itself')
})

t.test('reads lists of both versions, of any length, and serial numbers of any', { skip }, async t => {
  const folder = t.testdir()
  const ca = Authority.make(folder)
  const serials = Array.from({ length: 3000 }, (_, i) => (i + 1).toString(16).padStart(4, '0'))
  const large = ['c0ff01', 'ff01', `7f${'e5'.repeat(19)}`]
  const line = (serial: string) =>
    `R\t350101000000Z\t250101000000Z,keyCompromise\t${serial}\tunknown\t/CN=x\n`
  writeFileSync(join(folder, 'ca.index'), [...serials, ...large].map(line).join(''))
  // A reason needs version 2 and extensions of entries; a number of the list extensions of its own.
  const settings = 'database = ca.index\ncrlnumber = number\ncrl_extensions = extensions\n[extensions]\n'
  writeFileSync(join(folder, 'number'), '1000\n')
  const extensions = 'authorityKeyIdentifier = keyid:always\n'
  writeFileSync(
    join(folder, 'v2.settings'),
    `[ca]\ndefault_ca = s\n[s]\ndefault_md = sha256\n${settings}${extensions}`,
  )
  const self = ['ca', '-config', 'v2.settings', '-cert', ca.certFile, '-keyfile', ca.keyFile]
  const list = parseRevocationList(openssl(folder, ...self, '-gencrl', '-crldays', '1'))
  t.equal(list.issuer, idOf(ca.cert).issuer)
  t.equal(list.serials.size, 3003)
  const expected = ['01', '7f', '0080', '00ff', '0100', '0bb8', '00c0ff01', '00ff01', `7f${'e5'.repeat(19)}`]
  for (const serial of expected) t.ok(list.serials.has(serial), serial)
  // An issuer of several attributes and more than 127 bytes.
  const long = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    'k',
  ]
  const subject = `/C=DE/O=${'Example '.repeat(7)}/OU=${'b'.repeat(64)}/CN=x`
  const pem = openssl(folder, ...long, '-config', 'settings', '-subj', subject)
  t.match(idOf(pem), { issuer: /^3081/, serial: /^[0-9a-f]{38,40}$/ })
})

t.test('what is cut short or something else is no list', { skip }, async t => {
  const ca = Authority.make(t.testdir())
  const list = bytesOf(ca.revoke([ca.issue()]))
  for (let length = 0; length < list.length; length++) {
    t.throws(() => parseRevocationList(pemOf(list.subarray(0, length))), RangeError, `${length} bytes`)
  }
  for (const hex of ['3080', '3085', '30850000000001', '0500', '3000', '30023000', '3003300102']) {
    t.throws(() => parseRevocationList(pemOf(Buffer.from(hex, 'hex'))), RangeError, hex)
    t.throws(() => parseCertificateId(Buffer.from(hex, 'hex')), RangeError, hex)
  }
})
