import t from 'tap'
import { OtherProtocol, recogniseOtherProtocol } from '../../src/http1/other-protocol.js'
import { RequestReader } from '../../src/http1/request-reader.js'
import { isToken } from '../../src/http/token.js'
import { LIMITS, readEveryWay } from '../kit/peers/transcript.js'

const OTHERS = new Map([
  [0x04, 'socks'],
  [0x05, 'socks'],
  [0x16, 'tls_on_plain_port'],
])

t.test('another protocol is recognised by its first byte, which no request begins with', async t => {
  for (let first = 0; first < 256; first++) {
    t.equal(recogniseOtherProtocol(first)?.reason, OTHERS.get(first), String(first))
    if (OTHERS.has(first)) t.notOk(isToken(String.fromCharCode(first)))
  }
})

t.test('each is refused in its own format (RFC 1928 §3, RFC 8446 §6.2)', async t => {
  const answers = [...OTHERS.keys()].map(first => Buffer.from(recogniseOtherProtocol(first)?.answer ?? []))
  t.same(
    answers.map(bytes => bytes.toString('hex')),
    ['005b000000000000', '05ff', '15030300020246'],
  )
})

t.test('only the first byte of a connection is examined (RFC 9112 §2.2)', async t => {
  for (const first of OTHERS.keys()) {
    const reader = new RequestReader(LIMITS)
    t.equal(reader.next(), undefined)
    t.notOk(reader.inHead)
    reader.input.push(Buffer.from([first]))
    t.ok(reader.inHead)
    try {
      reader.next()
      t.fail('nothing was thrown')
    } catch (error) {
      t.ok(error instanceof OtherProtocol)
    }
    t.equal(reader.next(), undefined, 'nothing more is read')
    const byte = String.fromCharCode(first)
    t.match(readEveryWay(`\r\n${byte} / HTTP/1.1\r\n\r\n`), { error: /^400 malformed: / })
    t.match(readEveryWay(`GET / HTTP/1.1\r\n\r\n${byte} / HTTP/1.1\r\n\r\n`), {
      error: /^400 malformed: /,
    })
  }
})
