/** Common mistakes in listen.tls: each file, each mistake, and the resulting message. */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Loaded, parseConfig } from '../../src/config/load.js'
import { ConfigError, type Problem } from '../../src/config/problem.js'
import { Authority, openssl } from '../kit/peers/authority.js'
import { needs } from '../kit/processes/command.js'

const skip = needs('openssl')
const DAY_MS = 86_400_000

/** A folder with valid files for a TLS listener. */
function folderOf(t: Test) {
  const folder = t.testdir()
  const ca = Authority.make(folder)
  const host = ca.issue({ subject: '/O=Example/CN=proxy.example', san: 'DNS:proxy.example', days: 2 })
  const write = (name: string, text: string, mode = 0o600): void => {
    writeFileSync(join(folder, name), text)
    chmodSync(join(folder, name), mode)
  }
  write('tls.crt', host.cert)
  write('tls.key', host.key)
  write('ca', ca.cert)
  write('crl', ca.revoke([]))
  return { folder, ca, host, write }
}

const TLS = 'address: "127.0.0.1:0", cert: tls.crt, key: tls.key'
const ALL = `${TLS}, client_ca: ca, crl: crl`

function load(folder: string, keys = ALL, nowMs?: number): Loaded {
  return parseConfig(`version: 1\nlisten: { tls: { ${keys} } }\n`, 'sluice.yaml', folder, nowMs)
}

const lines = (problems: readonly Problem[]) => problems.map(({ path, message }) => `${path}: ${message}`)

function problems(folder: string, keys = ALL): string[] {
  try {
    load(folder, keys)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return lines(error.problems)
  }
}

t.test('the content of the files comes with the configuration', { skip }, async t => {
  const { folder, ca, host } = folderOf(t)
  const { files, warnings } = load(folder)
  t.same(warnings, [])
  t.match(files.tls, { cert: host.cert, key: host.key, clientCa: ca.cert, crl: /^-----BEGIN X509 CRL/ })
  t.strictSame(load(folder, TLS).files.tls, { cert: host.cert, key: host.key })
  t.equal(parseConfig('version: 1\n').files.tls, undefined)
})

t.test('accepts a chain, a key after its parameters, and both in one file', { skip }, async t => {
  const { folder, ca, write } = folderOf(t)
  const below = ca.issueAuthority('below')
  const { cert, key } = below.issue()
  write('tls.crt', `subject=CN = x\r\n${cert}${below.cert}${ca.cert}`.replaceAll('\n', '\r\n'))
  write('tls.key', openssl(folder, 'ecparam', '-name', 'prime256v1') + key)
  t.same(problems(folder), [])
  write('tls.crt', key + cert + below.cert)
  t.same(problems(folder, 'address: "127.0.0.1:0", cert: tls.crt, key: tls.crt'), [])
})

t.test('missing files are all reported at once', { skip }, async t => {
  const { folder } = folderOf(t)
  const found = problems(folder, 'address: "127.0.0.1:0", cert: a, key: b, client_ca: c, crl: d')
  t.match(found, [
    /^listen\.tls\.cert: a: no such file/,
    /^listen\.tls\.key: b: no such file/,
    /^listen\.tls\.client_ca: c: no such file/,
    /^listen\.tls\.crl: d: no such file/,
  ])
  t.equal(found.length, 4)
})

t.test('a revocation list without client_ca is a problem', { skip }, async t => {
  const { folder } = folderOf(t)
  t.same(problems(folder, `${TLS}, crl: crl`), [
    'listen.tls.crl: no certificates are requested that could be revoked; set client_ca too',
  ])
})

t.test('a file with other content is reported with that', { skip }, async t => {
  const { folder, ca, host, write } = folderOf(t)
  const crl = ca.revoke([])
  const refused = (name: string, text: string, problem: string): void => {
    const files = { 'tls.crt': host.cert, 'tls.key': host.key, ca: ca.cert, crl }
    for (const [file, right] of Object.entries(files)) write(file, file === name ? text : right)
    t.same(problems(folder), [problem])
  }
  const noCertificate = 'contains no certificate in PEM (-----BEGIN CERTIFICATE-----)'
  refused('tls.crt', '', `listen.tls.cert: tls.crt ${noCertificate}`)
  refused('tls.crt', host.key, `listen.tls.cert: tls.crt ${noCertificate}; it contains PRIVATE KEY`)
  refused(
    'tls.crt',
    '0\x82\x01',
    `listen.tls.cert: tls.crt ${noCertificate}; if it is DER, convert it with openssl`,
  )
  refused('ca', '# none yet\n', `listen.tls.client_ca: ca ${noCertificate}`)
  refused('ca', crl, `listen.tls.client_ca: ca ${noCertificate}; it contains X509 CRL`)
  refused(
    'crl',
    ca.cert,
    'listen.tls.crl: crl contains no revocation list in PEM (-----BEGIN X509 CRL-----); it contains CERTIFICATE',
  )
  refused(
    'tls.key',
    host.cert,
    'listen.tls.key: tls.key contains no private key in PEM; it contains CERTIFICATE',
  )
})

t.test('a damaged file is reported with its damaged part', { skip }, async t => {
  const { folder, ca, host, write } = folderOf(t)
  const damaged = (pem: string) => pem.replace(/\n....[^\n]*\n/, '\nAAAA\n')
  const cut = (pem: string) => pem.slice(0, -30)
  const refused = (name: string, right: string, text: string, problem: RegExp): void => {
    write(name, text)
    const found = problems(folder)
    t.match(found, [problem])
    t.equal(found.length, 1)
    write(name, right)
  }
  const crl = ca.revoke([])
  refused(
    'tls.crt',
    host.cert,
    damaged(host.cert),
    /cert: certificate 1 of tls\.crt is damaged \(.+\); replace the file$/,
  )
  refused('tls.crt', host.cert, host.cert + damaged(ca.cert), /cert: certificate 2 of tls\.crt is damaged \(/)
  refused('ca', ca.cert, ca.cert + damaged(ca.cert), /client_ca: certificate 2 of ca is damaged \(/)
  refused(
    'ca',
    ca.cert,
    ca.cert + cut(ca.cert),
    /client_ca: ca is truncated: only 1 of 2 PEM blocks are complete; replace the file$/,
  )
  refused(
    'crl',
    crl,
    crl + damaged(crl),
    /crl: revocation list 2 of crl is damaged \(.+\); replace the file$/,
  )
  refused('crl', crl, cut(crl), /crl: crl is truncated: only 0 of 1 PEM blocks are complete/)
  refused(
    'tls.key',
    host.key,
    damaged(host.key),
    /key: the private key in tls\.key is damaged \(.+\); replace the file$/,
  )
  t.same(problems(folder), [])
})

t.test('a key with a passphrase is refused with a solution, in either format', { skip }, async t => {
  const { folder, write } = folderOf(t)
  for (const args of [
    ['pkcs8', '-topk8', '-in', 'tls.key', '-passout', 'pass:secret'],
    ['ec', '-in', 'tls.key', '-aes128', '-passout', 'pass:secret'],
  ]) {
    write('locked.key', openssl(folder, ...args))
    t.same(problems(folder, 'address: "127.0.0.1:0", cert: tls.crt, key: locked.key'), [
      'listen.tls.key: locked.key is encrypted, and a server cannot ask for the passphrase; use the output of `openssl pkey -in locked.key -out NEW`',
    ])
  }
})

t.test('certificate and key must belong together', { skip }, async t => {
  const { folder, ca, host, write } = folderOf(t)
  const { key } = ca.issue()
  write('tls.key', key)
  t.same(problems(folder), [
    'listen.tls.key: tls.key is not the key of the first certificate of tls.crt (O=Example, CN=proxy.example); use a certificate and a key that belong together',
  ])
  write('tls.key', host.key)
  write('tls.crt', ca.cert + host.cert)
  t.same(problems(folder), [
    'listen.tls.cert: tls.key is the key of certificate 2 of tls.crt; put that certificate first, followed by those of its issuers',
  ])
})

t.test('a key that TLS does not accept is found before the first client connects', { skip }, async t => {
  const { folder, write } = folderOf(t)
  const short = ['-newkey', 'rsa:512', '-nodes', '-subj', '/CN=x', '-config', 'settings']
  write('tls.crt', openssl(folder, 'req', '-x509', ...short, '-keyout', 'tls.key'))
  chmodSync(join(folder, 'tls.key'), 0o600)
  t.same(problems(folder), ['listen.tls.cert: tls.crt cannot be used for TLS: ee key too small'])
})

t.test('a certificate that is not yet, or no longer, valid is a warning with its date', { skip }, async t => {
  const { folder } = folderOf(t)
  const now = Date.now()
  const found = (nowMs: number) => lines(load(folder, TLS, nowMs).warnings)
  const date = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/.source
  const whose = 'certificate 1 of tls\\.crt \\(O=Example, CN=proxy\\.example\\)'
  t.same(found(now + DAY_MS), [])
  t.match(found(now - DAY_MS), [
    new RegExp(`^listen\\.tls\\.cert: ${whose} is not valid before ${date}; is the clock right\\?$`),
  ])
  t.match(found(now + 2 * DAY_MS + 1000), [
    new RegExp(`^listen\\.tls\\.cert: ${whose} expired on ${date} and will be refused; renew it$`),
  ])
})

t.test('in its very last second a certificate is valid', { skip }, async t => {
  const { folder } = folderOf(t)
  const [, end = ''] =
    /notAfter=(.*)/.exec(openssl(folder, 'x509', '-in', 'tls.crt', '-noout', '-enddate')) ?? []
  const [, start = ''] =
    /notBefore=(.*)/.exec(openssl(folder, 'x509', '-in', 'tls.crt', '-noout', '-startdate')) ?? []
  const warned = (nowMs: number) => load(folder, TLS, nowMs).warnings.length
  t.equal(warned(Date.parse(start) - 1), 1)
  t.equal(warned(Date.parse(start)), 0)
  t.equal(warned(Date.parse(end)), 0)
  t.equal(warned(Date.parse(end) + 1), 1)
})

t.test('an authority that has expired, or is not an authority, is a warning', { skip }, async t => {
  const { folder, ca, write } = folderOf(t)
  write('ca', ca.cert + ca.issue({ subject: '/CN=old', isAuthority: true, days: -1 }).cert)
  const [expired = '', ...more] = lines(load(folder).warnings)
  t.match(expired, /^listen\.tls\.client_ca: certificate 2 of ca \(CN=old\) expired on /)
  t.same(more, [])
  write('ca', ca.cert + ca.issue({ subject: '/CN=leaf' }).cert)
  t.same(lines(load(folder).warnings), [
    'listen.tls.client_ca: certificate 2 of ca (CN=leaf) is not an authority, so no client certificate is issued under it; use the authority that issues them',
  ])
})

t.test('an authority whose own issuer is not in the file is a problem', { skip }, async t => {
  const { folder, ca, write } = folderOf(t)
  const below = ca.issueAuthority('below')
  write('ca', below.cert)
  t.same(problems(folder), [
    'listen.tls.client_ca: certificate 1 of ca (CN=below) is issued by another authority, CN=ca; add its certificate to the file',
  ])
  write('ca', below.cert + ca.cert)
  t.same(problems(folder), [])
})

t.test('a key that every user can read is a warning', { skip }, async t => {
  const { folder } = folderOf(t)
  chmodSync(join(folder, 'tls.key'), 0o644)
  t.same(lines(load(folder).warnings), [
    'listen.tls.key: every user of this machine can read tls.key; run `chmod o= tls.key`',
  ])
  chmodSync(join(folder, 'tls.key'), 0o640)
  t.same(load(folder).warnings, [])
})
