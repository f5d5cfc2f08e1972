import t from 'tap'
import { parseSubject } from '../../src/tls/subject.js'

t.test('reads an attribute by its short name or its number, and the star', async t => {
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

t.test('refuses what would match nobody', async t => {
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
