import t from 'tap'
import {
  type CertificateCondition,
  certificateHolder,
  type ClientCertificate,
  matchesCertificate,
  parseSubject,
} from '../../src/tls/client-certificate.js'

const CERTIFICATE: ClientCertificate = {
  kind: 'valid',
  names: ['ci.example', '*.build.example', 'spiffe://example/CI', 'Ci@example', '2001:db8::1', '192.0.2.1'],
  subject: [
    { attribute: 'O', value: 'Example' },
    { attribute: 'CN', value: 'ci' },
    { attribute: 'emailAddress', value: 'ci@example' },
    { attribute: 'OU', value: 'a=b' },
  ],
  chain: [],
}

const san = (...names: string[]): CertificateCondition => ({ san: names })
const subject = (...texts: string[]): CertificateCondition => ({ subject: texts.map(parseSubject) })

t.test('one alternative name of the list must match', async t => {
  for (const [condition, expected] of [
    [san('ci.example'), true],
    [san('CI.Example'), true],
    [san('other.example', 'ci.example'), true],
    [san('*.build.example'), true],
    [san('a.build.example'), false],
    [san('*.example'), false],
    [san('ci.example.'), false],
    [san('xci.example'), false],
    [san('spiffe://example/CI'), true],
    [san('spiffe://example/ci'), false],
    [san('SPIFFE://example/CI'), false],
    [san('Ci@example'), true],
    [san('ci@example'), false],
    [san('2001:DB8:0::1'), true],
    [san('2001:db8::2'), false],
    [san('192.0.2.1'), true],
    [san('192.0.2.2'), false],
    [san('ci'), false],
  ] as const) {
    t.equal(matchesCertificate(condition, CERTIFICATE), expected, JSON.stringify(condition))
  }
})

t.test('one attribute of the list must be in the subject, with exactly this value', async t => {
  for (const [condition, expected] of [
    [subject('CN=ci'), true],
    [subject('CN=CI'), false],
    [subject('CN=c'), false],
    [subject('O=ci'), false],
    [subject('CN=other', 'O=Example'), true],
    [subject('emailAddress=ci@example'), true],
    [subject('OU=a=b'), true],
    [subject('OU=a'), false],
    [subject('*'), true],
    [subject('CN=other', '*'), true],
  ] as const) {
    t.equal(matchesCertificate(condition, CERTIFICATE), expected, JSON.stringify(condition))
  }
})

t.test('if san and subject are given, both must match', async t => {
  const both = (...[name, attribute]: [string, string]) => ({ ...san(name), ...subject(attribute) })
  t.ok(matchesCertificate(both('ci.example', 'CN=ci'), CERTIFICATE))
  t.notOk(matchesCertificate(both('ci.example', 'CN=other'), CERTIFICATE))
  t.notOk(matchesCertificate(both('other.example', 'CN=ci'), CERTIFICATE))
  t.notOk(matchesCertificate(both('other.example', '*'), CERTIFICATE))
})

t.test('without a certificate, or with an invalid one, nothing matches', async t => {
  for (const certificate of [undefined, { kind: 'invalid', error: 'CERT_HAS_EXPIRED' }] as const) {
    t.notOk(matchesCertificate(subject('*'), certificate))
    t.notOk(matchesCertificate(san('ci.example'), certificate))
  }
  t.ok(matchesCertificate(subject('*'), { kind: 'valid', names: [], subject: [], chain: [] }))
})

t.test('parses an attribute by its short name or its number, and the star', async t => {
  t.equal(parseSubject('*'), '*')
  for (const [text, attribute, value] of [
    ['CN=ci', 'CN', 'ci'],
    ['O=Example, Inc.', 'O', 'Example, Inc.'],
    ['OU=a=b', 'OU', 'a=b'],
    ['CN=*', 'CN', '*'],
    ['CN=Käfer', 'CN', 'Käfer'],
    ['emailAddress=ci@example.com', 'emailAddress', 'ci@example.com'],
    ['UID=1', 'UID', '1'],
    ['uid=1', 'uid', '1'],
    ['1.2.3.4=x', '1.2.3.4', 'x'],
  ] as const) {
    t.same(parseSubject(text), { attribute, value }, text)
  }
})

t.test('refuses conditions that could never match', async t => {
  const expected = (text: string) => `expected an attribute, such as "CN=ci", or "*", found "${text}"`
  for (const text of [
    '',
    'CN',
    'CN=',
    '=ci',
    'CN = ci',
    'CN= ci',
    'CN=ci ',
    '**',
    '1=x',
    '1.=x',
    '.1.2=x',
    'C-N=x',
    'CN=a\nb',
    'CN=\0',
  ]) {
    t.throws(() => parseSubject(text), new RangeError(expected(text)), JSON.stringify(text))
  }
  const unknown = 'subjects have no attribute with the short name'
  for (const [text, message] of [
    ['cn=ci', `${unknown} cn; did you mean CN=ci?`],
    ['email=a@b', `${unknown} email; did you mean mail=a@b?`],
    ['commonName=ci', `${unknown} commonName; write its object identifier, such as 1.2.3.4=ci`],
  ] as const) {
    t.throws(() => parseSubject(text), new RangeError(message), text)
  }
})

t.test('the holder is the first alternative name, or else the subject (RFC 4514 §2.4)', async t => {
  const holder = (names: readonly string[], ...attributes: (readonly [string, string])[]) =>
    certificateHolder({
      kind: 'valid',
      names,
      subject: attributes.map(([attribute, value]) => ({ attribute, value })),
      chain: [],
    })
  t.equal(certificateHolder(CERTIFICATE), 'ci.example')
  t.equal(holder(['spiffe://example/ci'], ['CN', 'ci']), 'spiffe://example/ci')
  t.equal(holder([], ['O', 'Example'], ['CN', 'ci']), 'O=Example, CN=ci')
  t.equal(holder([], ['CN', 'ci, OU=admins']), 'CN=ci\\, OU=admins', 'one attribute is not two')
  t.equal(holder([], ['CN', 'ci\\'], ['OU', 'x']), 'CN=ci\\\\, OU=x')
  t.equal(holder([]), undefined)
  t.equal(certificateHolder({ kind: 'invalid', error: 'CERT_HAS_EXPIRED' }), undefined)
  t.equal(certificateHolder(undefined), undefined)
})
