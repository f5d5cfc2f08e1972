import t from 'tap'
import { isToken } from '../../src/http/token.js'

const TCHAR = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

t.test('a token is one or more of exactly the 77 token characters (RFC 9110 §5.6.2)', async t => {
  t.equal(TCHAR.length, 77)
  for (let code = 0; code <= 0x100; code++) {
    const char = String.fromCharCode(code)
    const expected = TCHAR.includes(char)
    for (const text of [char, `a${char}`, `${char}a`])
      t.equal(isToken(text), expected, `0x${code.toString(16)}`)
  }
  t.ok(isToken(TCHAR))
  t.notOk(isToken(''))
  t.notOk(isToken('a\n'))
})
