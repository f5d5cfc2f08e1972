import t from 'tap'
import { forwardedPhrase, refusalPhrase, registeredPhrase } from '../../src/http/reason-phrase.js'

t.test('knows the registered phrases, and none for other codes (RFC 9112 §4)', async t => {
  t.equal(registeredPhrase(200), 'OK')
  t.equal(registeredPhrase(431), 'Request Header Fields Too Large')
  t.equal(registeredPhrase(299), '')
})

t.test('the phrase of a refusal contains the message in valid characters (RFC 9112 §4)', async t => {
  t.equal(refusalPhrase('no rule allows a:443'), 'Sluice: no rule allows a:443')
  t.equal(refusalPhrase('a\r\nSet-Cookie: b\0\t\x7f\xe9'), 'Sluice: a??Set-Cookie: b????')
  t.equal(refusalPhrase('x'.repeat(192)).length, 200)
  t.equal(refusalPhrase('x'.repeat(193)).length, 200)
})

t.test('a received phrase is forwarded if it is printable ASCII (RFC 9112 §4)', async t => {
  for (const phrase of ['', 'OK', 'Sehr gut\t!', '~']) t.equal(forwardedPhrase(200, phrase), phrase)
  for (const phrase of ['a\rb', 'a\nb', 'OK\n', '\0', '\x7f', '\xe9'])
    t.equal(forwardedPhrase(404, phrase), 'Not Found')
  t.equal(forwardedPhrase(299, '\0'), '')
})
