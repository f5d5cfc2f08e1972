import t from 'tap'
import { pemBlocks, pemLabels } from '../../src/tls/pem.js'

const block = (label: string, content: string) =>
  `-----BEGIN ${label}-----\n${content}\n-----END ${label}-----\n`

t.test('finds the blocks of one label, in order, with any text around them (RFC 7468 §2)', async t => {
  const [a, b, c] = [
    block('CERTIFICATE', 'QQ=='),
    block('X509 CRL', 'Qg=='),
    block('CERTIFICATE', 'Qw==\nRA=='),
  ]
  const text = `subject=CN = a\n${a}- text -\n${b}\n\n${c}trailer`
  t.same(pemBlocks(text, 'CERTIFICATE'), [a, c])
  t.same(pemBlocks(text, 'X509 CRL'), [b])
  t.same(pemBlocks('', 'CERTIFICATE'), [])
  t.same(pemLabels(text), ['CERTIFICATE', 'X509 CRL', 'CERTIFICATE'])
})

t.test('accepts either line end, and spaces after the first line', async t => {
  const text = '-----BEGIN CERTIFICATE----- \r\nQQ==\r\n-----END CERTIFICATE-----\r\n'
  t.same(pemBlocks(text, 'CERTIFICATE'), [text.slice(0, -2).concat('\n')])
})

t.test('a block that does not end, or with another label, is ignored, but its label is listed', async t => {
  for (const text of [
    '-----BEGIN CERTIFICATE-----\nQQ==\n',
    '-----BEGIN CERTIFICATE-----\nQQ==\n-----END X509 CRL-----\n',
    '-----BEGIN CERTIFICATE-----\nQQ==-----END CERTIFICATE-----\n',
    '-----BEGIN CERTIFICATE-----\nQQ==\n-----BEGIN X509 CRL-----\n-----END CERTIFICATE-----\n',
  ]) {
    t.same(pemBlocks(text, 'CERTIFICATE'), [], JSON.stringify(text))
    t.equal(pemLabels(text)[0], 'CERTIFICATE')
  }
  t.same(pemLabels(' -----BEGIN CERTIFICATE-----\n-----BEGIN CERT\n'), [])
})
