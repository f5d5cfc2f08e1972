import t from 'tap'
import { HandshakeReader, type HandshakeVerdict } from '../../src/tunnel/handshake-message.js'
import { handshake, record, records } from '../kit/peers/client-hello.js'

const TYPE = 7
const BODY = Buffer.from('what it says')
const MESSAGE = handshake(BODY, TYPE)

const reader = (before: readonly number[] = [], maxBytes = 100) =>
  new HandshakeReader({ messageType: TYPE, maxBytes, skippedTypes: before })

function text(verdict: HandshakeVerdict | undefined): string {
  if (verdict === undefined) return 'more'
  return verdict.kind === 'fault'
    ? verdict.fault
    : `${verdict.body.toString('latin1')}, ${verdict.endsRecord}`
}

t.test('reads the body of a message from records of any length (RFC 8446 §5.1)', async t => {
  for (const length of [1, 2, 15, MESSAGE.length]) {
    t.equal(
      text(reader([], 200).push(records(MESSAGE, length))),
      'what it says, true',
      `fragments of ${length}`,
    )
  }
})

t.test('says whether its last record contains more', async t => {
  for (const behind of ['x', MESSAGE]) {
    const bytes = record(Buffer.concat([MESSAGE, Buffer.from(behind)]))
    t.equal(text(reader().push(bytes)), 'what it says, false')
  }
})

t.test('separates the parsed bytes from those after them', async t => {
  const one = reader()
  const bytes = record(MESSAGE)
  one.push(bytes.subarray(0, 4))
  one.push(Buffer.concat([bytes.subarray(4), Buffer.from('behind')]))
  t.ok(one.parsed.equals(bytes))
  t.equal(one.rest.toString(), 'behind')
  t.equal(one.held.length, bytes.length + 6)
})

t.test('accepts at most the maximum number of bytes, without counting skipped records', async t => {
  const [bytes, before] = [record(MESSAGE), record(Buffer.alloc(500), 23)]
  for (const [maxBytes, verdict] of [
    [bytes.length, 'what it says, true'],
    [bytes.length - 1, 'too_large'],
  ] as const) {
    t.equal(text(reader([23], maxBytes).push(bytes)), verdict)
    t.equal(text(reader([23], maxBytes).push(Buffer.concat([before, bytes]))), verdict)
    const one = reader([23], maxBytes)
    let last: HandshakeVerdict | undefined
    for (const byte of Buffer.concat([before, bytes])) last ??= one.push(Uint8Array.of(byte))
    t.equal(text(last), verdict, 'in pieces')
  }
})

t.test('skips records of the given types before the message, and no others', async t => {
  const [twenty, data] = [record(Uint8Array.of(1), 20), record(Buffer.from('data'), 23)]
  const bytes = (...parts: Buffer[]) => Buffer.concat(parts)
  const table: [what: string, bytes: Buffer, verdict: string][] = [
    ['none', record(MESSAGE), 'what it says, true'],
    ['one', bytes(twenty, record(MESSAGE)), 'what it says, true'],
    ['several', bytes(data, twenty, data, records(MESSAGE, 6)), 'what it says, true'],
    ['no message behind', bytes(data, data), 'more'],
    ['an alert', bytes(data, record(Uint8Array.of(1, 0), 21)), 'not_tls'],
    ['one in the middle of the message', bytes(record(MESSAGE.subarray(0, 5)), data), 'not_tls'],
    ['another message', bytes(data, record(handshake(BODY, TYPE + 1))), 'not_tls'],
    ['an empty record', bytes(record(Buffer.alloc(0), 23)), 'not_tls'],
    ['the longest', bytes(record(Buffer.alloc(2 ** 14 + 256), 23), record(MESSAGE)), 'what it says, true'],
    ['one too long', bytes(record(Buffer.alloc(2 ** 14 + 257), 23)), 'not_tls'],
    ['another version', record(Uint8Array.of(1), 20, 0x0200), 'not_tls'],
  ]
  for (const [what, all, verdict] of table) {
    t.equal(text(reader([20, 23]).push(all)), verdict, what)
    const one = reader([20, 23])
    let last: HandshakeVerdict | undefined
    for (const byte of all) last ??= one.push(Uint8Array.of(byte))
    t.equal(text(last), verdict, `${what}, in pieces`)
  }
  t.equal(text(reader().push(twenty)), 'not_tls', 'where none may')
})

t.test('skips at most 64 KiB', async t => {
  const before = (last: number) => {
    const whole = record(Buffer.alloc(2 ** 14 - 5), 23)
    return Buffer.concat([whole, whole, whole, record(Buffer.alloc(last - 5), 23)])
  }
  t.equal(before(2 ** 14).length, 64 * 1024)
  t.equal(text(reader([23]).push(Buffer.concat([before(2 ** 14), record(MESSAGE)]))), 'what it says, true')
  t.equal(text(reader([23]).push(before(2 ** 14 + 1))), 'too_large')
})
