import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseCertificateId, parseRevocationList } from '../../src/tls/revocation-list.js'
import { Authority, openssl } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'

const skip = needs('openssl')

const idOf = (pem: string) => parseCertificateId(new X509Certificate(pem).raw)
const bytesOf = (pem: string) => Buffer.from(pem.replace(/-----[^-]+-----/g, ''), 'base64')
const pemOf = (bytes: Buffer) =>
  `-----BEGIN X509 CRL-----\n${bytes.toString('base64')}\n-----END X509 CRL-----\n`

t.test('identifies revoked certificates by issuer and serial number (RFC 5280 §5.1)', { skip }, async t => {
  const folder = t.testdir()
  const [ca, other] = [Authority.make(folder), Authority.make(folder, 'other')]
  const [kept, ...revoked] = [ca.issue(), ca.issue(), ca.issue()]
  const empty = parseRevocationList(ca.revoke([]))
  t.same([empty.issuer, empty.serials], [idOf(kept.cert).issuer, new Set()])
  const list = parseRevocationList(ca.revoke(revoked))
  t.same([list.issuer, list.serials], [idOf(kept.cert).issuer, new Set(['02', '03'])])
  t.equal(list.untilMs - list.fromMs, 86_400_000)
  const old = parseRevocationList(ca.revoke([], false))
  t.same([old.fromMs, old.untilMs], [Date.UTC(2020, 0, 1), Date.UTC(2020, 1, 1)])
  t.same(idOf(kept.cert), { issuer: list.issuer, serial: '01' })
  t.not(idOf(other.issue().cert).issuer, list.issuer)
  t.equal(idOf(ca.cert).issuer, list.issuer, 'an authority has issued itself')
})

t.test(
  'parses lists of both versions, of any length, and serial numbers of any length',
  { skip },
  async t => {
    const folder = t.testdir()
    const ca = Authority.make(folder)
    const serials = Array.from({ length: 3000 }, (_, i) => (i + 1).toString(16).padStart(4, '0'))
    const large = ['c0ff01', 'ff01', `7f${'e5'.repeat(19)}`]
    const line = (serial: string) =>
      `R\t350101000000Z\t250101000000Z,keyCompromise\t${serial}\tunknown\t/CN=x\n`
    writeFileSync(join(folder, 'ca.index'), [...serials, ...large].map(line).join(''))
    // A reason requires version 2 and entry extensions; a CRL number requires list extensions.
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
    const expected = [
      '01',
      '7f',
      '0080',
      '00ff',
      '0100',
      '0bb8',
      '00c0ff01',
      '00ff01',
      `7f${'e5'.repeat(19)}`,
    ]
    for (const serial of expected) t.ok(list.serials.has(serial), serial)
    // An issuer with several attributes and more than 127 bytes.
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
    t.match(idOf(pem), { issuer: /^\[\[\[.{150,}\]\]\]$/, serial: /^[0-9a-f]{38,40}$/ })
  },
)

t.test('truncated data, or other data, is not a list', { skip }, async t => {
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

t.test('recognises who has signed it, with every kind of key (RFC 5280 §5.1.1.3)', { skip }, async t => {
  const rsa = ['rsa:2048']
  const pss = ['-sigopt', 'rsa_padding_mode:pss', '-sigopt', 'rsa_pss_saltlen:32']
  const curve = (name: string) => ['ec', '-pkeyopt', `ec_paramgen_curve:${name}`]
  const table: readonly (readonly [key: readonly string[], options: readonly string[]])[] = [
    [rsa, ['-md', 'sha1']],
    [rsa, ['-md', 'sha256']],
    [rsa, ['-md', 'sha384']],
    [rsa, ['-md', 'sha512']],
    [rsa, ['-md', 'sha256', ...pss]],
    [rsa, ['-md', 'sha512', ...pss]],
    [curve('P-256'), ['-md', 'sha256']],
    [curve('P-384'), ['-md', 'sha384']],
    [curve('P-521'), ['-md', 'sha512']],
    [['ed25519'], ['-md', 'default']],
    [['ed448'], ['-md', 'default']],
  ]
  for (const [key, options] of table) {
    const folder = t.testdir()
    const kind = [...key, ...options].join(' ')
    writeFileSync(
      join(folder, 'settings'),
      '[req]\ndistinguished_name = n\n[n]\n[ca]\ndefault_ca = s\n[s]\ndatabase = d\n',
    )
    writeFileSync(join(folder, 'd'), '')
    const made = ['-nodes', '-config', 'settings', '-subj', '/CN=x', '-keyout', 'key', '-out', 'cert']
    openssl(folder, 'req', '-x509', '-newkey', ...key, ...made)
    const self = ['-config', 'settings', '-cert', 'cert', '-keyfile', 'key', '-gencrl', '-crldays', '1']
    const pem = openssl(folder, 'ca', ...self, ...options)
    const { publicKey } = new X509Certificate(readFileSync(join(folder, 'cert')))
    t.equal(parseRevocationList(pem).isSignedBy(publicKey), true, kind)
    const bytes = bytesOf(pem)
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
    t.equal(parseRevocationList(pemOf(bytes)).isSignedBy(publicKey), false, `${kind}: another signature`)
    const { publicKey: stranger } = generateKeyPairSync('ed25519')
    t.equal(parseRevocationList(pem).isSignedBy(stranger), false, `${kind}: another key`)
  }
})
