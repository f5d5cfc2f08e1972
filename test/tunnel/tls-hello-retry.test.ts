import t from 'tap'
import { ServerHelloReader } from '../../src/tunnel/tls-hello.js'
import { clientHello, extension, handshake, record, records, uint } from '../kit/peers/client-hello.js'
import {
  FATAL_ALERT,
  RETRY_MESSAGE,
  RETRY_RANDOM,
  RETRY_REQUEST,
  SERVER_HELLO,
  serverHelloMessage,
} from '../kit/peers/server-hello.js'

/** The verdict for all bytes at once; it must be the same byte by byte, with the number of bytes that this took. */
function read(bytes: Uint8Array): { verdict: string | undefined; after: number } {
  const whole = new ServerHelloReader().push(bytes)
  const reader = new ServerHelloReader()
  let verdict: string | undefined
  let after = 0
  while (verdict === undefined && after < bytes.length) {
    verdict = reader.push(bytes.subarray(after, after + 1))
    after += 1
  }
  if (verdict !== whole) throw new Error(`${whole} at once, ${verdict} in pieces`)
  return { verdict, after }
}

t.test('recognises a HelloRetryRequest by its random (RFC 8446 §4.1.3)', async t => {
  t.equal(RETRY_RANDOM.toString('hex').slice(0, 8), 'cf21ad74')
  t.same(read(RETRY_REQUEST), { verdict: 'retry', after: RETRY_REQUEST.length })
  for (const at of [0, 1, 30, 31]) {
    const random = Buffer.from(RETRY_RANDOM)
    random[at] = (random[at] ?? 0) ^ 1
    t.equal(read(record(serverHelloMessage(random))).verdict, 'other', `byte ${at}`)
  }
})

t.test('nothing else is a HelloRetryRequest', async t => {
  const table: [what: string, bytes: Buffer, after: number][] = [
    ['a server hello', SERVER_HELLO, SERVER_HELLO.length],
    ['an alert', FATAL_ALERT, 1],
    ['text', Buffer.from('SSH-2.0-x\r\n'), 1],
    ['another message', record(handshake(Buffer.alloc(40), 11)), 6],
    ['a client hello', clientHello('a.test'), 6],
    ['an empty server hello', record(handshake(Buffer.alloc(0), 2)), 9],
    [
      'one that ends before its random does',
      record(handshake(Buffer.concat([uint(0x0303, 2), RETRY_RANDOM.subarray(1)]), 2)),
      42,
    ],
    ['an alert in the middle', Buffer.concat([record(RETRY_MESSAGE.subarray(0, 9)), FATAL_ALERT]), 15],
  ]
  for (const [what, bytes, after] of table) t.same(read(bytes), { verdict: 'other', after }, what)
})

t.test(
  'a part of a HelloRetryRequest has no verdict, and records of any length are joined (RFC 8446 §5.1)',
  async t => {
    for (let length = 0; length < RETRY_REQUEST.length; length++) {
      t.equal(read(RETRY_REQUEST.subarray(0, length)).verdict, undefined)
    }
    for (let length = 1; length <= RETRY_MESSAGE.length; length++) {
      t.equal(read(records(RETRY_MESSAGE, length)).verdict, 'retry', `fragments of ${length}`)
    }
  },
)

t.test('bytes after a HelloRetryRequest do not hide it', async t => {
  for (const behind of [
    record(Buffer.concat([RETRY_MESSAGE, RETRY_MESSAGE])),
    Buffer.concat([RETRY_REQUEST, FATAL_ALERT]),
  ]) {
    t.equal(read(behind).verdict, 'retry')
  }
})

t.test('reads the longest possible HelloRetryRequest', async t => {
  const random = serverHelloMessage(RETRY_RANDOM, extension(44, Buffer.alloc(2 ** 16 - 1 - 10)))
  t.equal(random.length, 2 ** 16 - 1 + 76)
  t.equal(read(records(random)).verdict, 'retry')
  const beginning = (body: number) => Buffer.concat([Buffer.from('160303400002', 'hex'), uint(body, 3)])
  t.equal(read(beginning(128 * 1024 - 9)).verdict, undefined)
  t.equal(read(beginning(128 * 1024 - 8)).verdict, 'other')
})
