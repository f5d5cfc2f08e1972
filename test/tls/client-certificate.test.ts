import t from 'tap'
import {
  type CertificateCondition,
  type ClientCertificate,
  matchesCertificate,
} from '../../src/tls/client-certificate.js'
import { parseSubject } from '../../src/tls/subject.js'

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

t.test('one alternative name of the list has to be there', async t => {
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

t.test('one attribute of the list has to be in the subject, with this very value', async t => {
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

t.test('san and subject, both given, have both to hold', async t => {
  const both = (...[name, attribute]: [string, string]) => ({ ...san(name), ...subject(attribute) })
  t.ok(matchesCertificate(both('ci.example', 'CN=ci'), CERTIFICATE))
  t.notOk(matchesCertificate(both('ci.example', 'CN=other'), CERTIFICATE))
  t.notOk(matchesCertificate(both('other.example', 'CN=ci'), CERTIFICATE))
  t.notOk(matchesCertificate(both('other.example', '*'), CERTIFICATE))
})

t.test('no certificate and one that is not valid match nothing', async t => {
  for (const certificate of [undefined, { kind: 'invalid', error: 'CERT_HAS_EXPIRED' }] as const) {
    t.notOk(matchesCertificate(subject('*'), certificate))
    t.notOk(matchesCertificate(san('ci.example'), certificate))
  }
  t.ok(matchesCertificate(subject('*'), { kind: 'valid', names: [], subject: [], chain: [] }))
})
