import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { type ConnectionOptions, connect as tlsConnect } from 'node:tls'
import { ClientHelloReader, type HelloVerdict } from '../../src/tunnel/tls-hello.js'
import {
  BEFORE,
  BEHIND,
  clientHello,
  extension,
  handshake,
  helloBody,
  nameEntry,
  paddedHello,
  record,
  records,
  serverNameExtension,
  uint,
  vector,
} from '../kit/peers/client-hello.js'
import { needs, run } from '../kit/processes/command.js'

const MAX_BYTES = 32 * 1024
const NOT_TLS = 'fault not_tls'
const TOO_LARGE = 'fault too_large'

function text(verdict: HelloVerdict | undefined): string {
  if (verdict === undefined) return 'more'
  return verdict.kind === 'fault' ? `fault ${verdict.fault}` : `name ${verdict.serverName ?? 'none'}`
}

/** The verdict for all bytes at once; it must be the same byte by byte, with the number of bytes that this took. */
function read(bytes: Uint8Array): { verdict: string; after: number } {
  const whole = text(new ClientHelloReader().push(bytes))
  const reader = new ClientHelloReader()
  let verdict: HelloVerdict | undefined
  let after = 0
  while (verdict === undefined && after < bytes.length) {
    verdict = reader.push(bytes.subarray(after, after + 1))
    after += 1
  }
  if (text(verdict) !== whole) throw new Error(`${whole} at once, ${text(verdict)} in pieces`)
  if (!reader.held.equals(bytes.subarray(0, after))) throw new Error('bytes were changed')
  return { verdict: whole, after }
}

/** A ClientHello with these extensions, in this order. */
const withExtensions = (...extensions: Uint8Array[]) =>
  record(handshake(helloBody({ extensions: vector(2, ...extensions) })))

t.test('reads the host name of a ClientHello (RFC 6066 §3)', async t => {
  for (const name of ['a.test', 'A.Test', 'a', 'a.test.', '192.0.2.1', 'x'.repeat(300), 'b\xfc\0\r\n']) {
    const hello = clientHello(name)
    t.same(read(hello), { verdict: `name ${name}`, after: hello.length })
  }
})

t.test('finds it at any position among the extensions', async t => {
  const named = serverNameExtension(nameEntry('a.test'))
  for (const extensions of [[named], [named, BEFORE], [BEHIND, BEFORE, named]]) {
    t.equal(read(withExtensions(...extensions)).verdict, 'name a.test')
  }
})

t.test('a ClientHello may have no name, empty extensions, or no extensions', async t => {
  t.equal(read(clientHello()).verdict, 'name none')
  t.equal(read(withExtensions()).verdict, 'name none')
  t.equal(read(record(handshake(helloBody({ extensions: Buffer.alloc(0) })))).verdict, 'name none')
})

t.test(
  'accepts every version from SSL 3.0 on in records and ClientHellos, and no other (RFC 8446 §5.1)',
  async t => {
    const message = handshake(helloBody({ extensions: vector(2, serverNameExtension(nameEntry('a.test'))) }))
    for (const [version, verdict] of [
      [0x02ff, NOT_TLS],
      [0x0300, 'name a.test'],
      [0x0301, 'name a.test'],
      [0x0303, 'name a.test'],
      [0x03ff, 'name a.test'],
      [0x0400, NOT_TLS],
    ] as const) {
      t.equal(read(record(message, 22, version)).verdict, verdict, `record ${version}`)
      const body = helloBody({ version, extensions: vector(2, serverNameExtension(nameEntry('a.test'))) })
      t.equal(read(record(handshake(body))).verdict, verdict, `hello ${version}`)
    }
  },
)

t.test('recognises what is not TLS by the first byte that cannot be (RFC 8446 §5.1)', async t => {
  const table: [what: string, bytes: Buffer, after: number][] = [
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n'), 1],
    ['SSH', Buffer.from('SSH-2.0-x\r\n'), 1],
    ['an SSL 2.0 hello', Buffer.from('802e0100020015000000100100800200', 'hex'), 1],
    ['a TLS alert', Buffer.from('15030300020100', 'hex'), 1],
    ['another record type', Buffer.from('17030300021600', 'hex'), 1],
    ['record type 0', Buffer.alloc(8), 1],
    ['major version 2', Buffer.from('160201000501', 'hex'), 2],
    ['major version 4', Buffer.from('160401000501', 'hex'), 2],
    ['an empty record', Buffer.from('1603010000160301', 'hex'), 5],
    ['a record too long', Buffer.from('160301400101', 'hex'), 5],
    ['a record much too long', Buffer.from('160301ffff01', 'hex'), 5],
    ['another message', Buffer.from('16030100040e000000', 'hex'), 6],
    ['a server hello', Buffer.from('160301000402000000', 'hex'), 6],
    ['an empty record behind one', Buffer.from('160301000101160301000000', 'hex'), 11],
    ['another record in the middle', Buffer.from('16030100010117030100010000', 'hex'), 7],
  ]
  for (const [what, bytes, after] of table) t.same(read(bytes), { verdict: NOT_TLS, after }, what)
})

t.test('a prefix of a ClientHello has no verdict', async t => {
  const hello = records(handshake(helloBody()), 50)
  for (let length = 0; length < hello.length; length++) {
    t.equal(read(hello.subarray(0, length)).verdict, 'more')
  }
  t.equal(read(hello).verdict, 'name none')
})

t.test('joins a ClientHello from records of any length (RFC 8446 §5.1)', async t => {
  const named = serverNameExtension(nameEntry('a.test'))
  const message = handshake(helloBody({ extensions: vector(2, BEFORE, named, BEHIND) }))
  for (let length = 1; length <= message.length; length++) {
    t.equal(read(records(message, length)).verdict, 'name a.test', `fragments of ${length}`)
  }
})

t.test('keeps bytes after a ClientHello without parsing them', async t => {
  const hello = clientHello('a.test')
  for (const behind of ['x', '\0'.repeat(MAX_BYTES), clientHello('b.test').toString('latin1')]) {
    const bytes = Buffer.concat([hello, Buffer.from(behind, 'latin1')])
    const reader = new ClientHelloReader()
    t.equal(reader.push(bytes.subarray(0, 10)), undefined)
    t.equal(text(reader.push(bytes.subarray(10))), 'name a.test')
    t.ok(reader.held.equals(bytes))
  }
})

t.test('refuses another message after the ClientHello in its record', async t => {
  const message = handshake(helloBody())
  t.equal(read(record(Buffer.concat([message, uint(0, 1)]))).verdict, NOT_TLS)
  t.equal(read(record(Buffer.concat([message, message]))).verdict, NOT_TLS)
  const split = Buffer.concat([
    record(message.subarray(0, 10)),
    record(Buffer.concat([message.subarray(10), message])),
  ])
  t.equal(read(split).verdict, NOT_TLS)
  const short = handshake(helloBody({ extensions: Buffer.alloc(0) }))
  const extensions = vector(2, serverNameExtension(nameEntry('a.test')))
  t.equal(
    read(record(Buffer.concat([short, extensions]))).verdict,
    NOT_TLS,
    'extensions that are none of its',
  )
})

t.test('checks the length of every part of a ClientHello (RFC 8446 §4.1.2)', async t => {
  const odd = Buffer.alloc(3)
  const table: [what: string, body: Buffer, verdict: string][] = [
    ['nothing', Buffer.alloc(0), NOT_TLS],
    ['half a version', uint(3, 1), NOT_TLS],
    ['a short random', Buffer.concat([uint(0x0303, 2), Buffer.alloc(31)]), NOT_TLS],
    ['no session id', helloBody({ sessionId: vector(1) }), 'name none'],
    ['a session id of 32', helloBody({ sessionId: vector(1, Buffer.alloc(32)) }), 'name none'],
    ['a session id of 33', helloBody({ sessionId: vector(1, Buffer.alloc(33)) }), NOT_TLS],
    ['no cipher suites', helloBody({ cipherSuites: vector(2) }), NOT_TLS],
    ['one cipher suite', helloBody({ cipherSuites: vector(2, uint(1, 2)) }), 'name none'],
    ['a suite and a half', helloBody({ cipherSuites: vector(2, odd) }), NOT_TLS],
    ['half a cipher suite', helloBody({ cipherSuites: vector(2, uint(1, 1)) }), NOT_TLS],
    ['no compression', helloBody({ compression: vector(1) }), NOT_TLS],
    ['255 compressions', helloBody({ compression: vector(1, Buffer.alloc(255)) }), 'name none'],
    ['half a length of extensions', helloBody({ extensions: uint(0, 1) }), NOT_TLS],
    ['extensions cut short', helloBody({ extensions: uint(1, 2) }), NOT_TLS],
    ['bytes behind the extensions', helloBody({ extensions: odd.fill(0) }), NOT_TLS],
    ['half a type', helloBody({ extensions: vector(2, uint(0, 1)) }), NOT_TLS],
    ['a type alone', helloBody({ extensions: vector(2, uint(7, 2)) }), NOT_TLS],
    ['an empty extension', helloBody({ extensions: vector(2, extension(7)) }), 'name none'],
    ['a long extension', helloBody({ extensions: vector(2, uint(7, 2), uint(1, 2)) }), NOT_TLS],
    ['a short extension', helloBody({ extensions: vector(2, extension(7), uint(0, 1)) }), NOT_TLS],
  ]
  for (const [what, body, verdict] of table) t.equal(read(record(handshake(body))).verdict, verdict, what)
})

t.test('accepts only one host name in the list of names (RFC 6066 §3)', async t => {
  const a = nameEntry('a.test')
  const named = serverNameExtension(a)
  const table: [what: string, extensions: Buffer[]][] = [
    ['an empty extension', [extension(0)]],
    ['an empty list', [extension(0, vector(2))]],
    ['half a length', [extension(0, uint(0, 1))]],
    ['a list too short', [extension(0, vector(2, a), uint(0, 1))]],
    ['a list too long', [extension(0, uint(a.length + 1, 2), a)]],
    ['a list in a list', [extension(0, vector(2, vector(2, a)))]],
    ['a type alone', [serverNameExtension(uint(0, 1))]],
    ['half a name length', [serverNameExtension(uint(0, 1), uint(0, 1))]],
    ['an empty name', [serverNameExtension(nameEntry(''))]],
    ['a name too long', [serverNameExtension(uint(0, 1), uint(7, 2), Buffer.from('a.test'))]],
    ['a byte behind it', [serverNameExtension(a, uint(0, 1))]],
    ['two names', [serverNameExtension(a, nameEntry('b.test'))]],
    ['the same name twice', [serverNameExtension(a, a)]],
    ['a name of another type', [serverNameExtension(nameEntry('a.test', 1))]],
    ['of another type and a host name', [serverNameExtension(nameEntry('b.test', 1), a)]],
    ['a host name and of another type', [serverNameExtension(a, nameEntry('b.test', 255))]],
    ['two extensions', [named, serverNameExtension(nameEntry('b.test'))]],
    ['the same extension twice', [named, BEFORE, named]],
    ['a second one that is empty', [named, extension(0)]],
  ]
  for (const [what, extensions] of table) t.equal(read(withExtensions(...extensions)).verdict, NOT_TLS, what)
  t.equal(read(withExtensions(named)).verdict, 'name a.test')
})

t.test('reads at most 32 KiB', async t => {
  for (const bytes of [500, 2 ** 14 + 5, 2 ** 14 + 12, MAX_BYTES - 1, MAX_BYTES]) {
    const hello = paddedHello('a.test', bytes)
    t.same([hello.length, read(hello).verdict], [bytes, 'name a.test'])
  }
  const over = read(paddedHello('a.test', MAX_BYTES + 1))
  t.same(over, { verdict: TOO_LARGE, after: MAX_BYTES + 1 })
})

t.test('refuses a longer ClientHello as soon as its length is known', async t => {
  const beginning = (body: number) => Buffer.concat([Buffer.from('160301400001', 'hex'), uint(body, 3)])
  t.equal(read(beginning(MAX_BYTES - 9)).verdict, 'more')
  t.same(read(beginning(MAX_BYTES - 8)), { verdict: TOO_LARGE, after: 9 })
  t.same(read(beginning(2 ** 24 - 1)), { verdict: TOO_LARGE, after: 9 })
})

t.test(
  'change_cipher_spec and early data may precede only a second ClientHello (RFC 8446 §4.2.10)',
  async t => {
    for (const [type, verdict] of [
      [19, NOT_TLS],
      [20, 'name a.test'],
      [21, NOT_TLS],
      [23, 'name a.test'],
      [24, NOT_TLS],
    ] as const) {
      const bytes = Buffer.concat([record(uint(1, 1), type), clientHello('a.test')])
      const second = new ClientHelloReader('second')
      t.equal(text(second.push(bytes)), verdict, `record type ${type}`)
      if (verdict !== NOT_TLS) t.ok(second.hello.equals(bytes))
      t.equal(read(bytes).verdict, NOT_TLS)
    }
  },
)

t.test('tiny records cannot make it read more', async t => {
  const message = handshake(Buffer.alloc(MAX_BYTES / 4))
  t.same(read(records(message, 1)), { verdict: TOO_LARGE, after: MAX_BYTES + 1 })
})

/** A server that waits for a ClientHello and closes: the bytes it received, and its port. */
async function helloTaker(t: Test): Promise<{ port: number; hello: Promise<Buffer> }> {
  const server = createServer()
  const hello = new Promise<Buffer>(resolve => {
    server.on('connection', (socket: Socket) => {
      const reader = new ClientHelloReader()
      socket.on('error', () => {})
      socket.on('data', chunk => {
        if (reader.push(chunk) === undefined) return
        resolve(reader.held)
        socket.destroy()
      })
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise(resolve => server.close(resolve)))
  return { port: (server.address() as AddressInfo).port, hello }
}

t.test('reads the ClientHellos of Node', async t => {
  const table: [ConnectionOptions, string][] = [
    [{ servername: 'a.test' }, 'name a.test'],
    [{ servername: 'a.test', minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' }, 'name a.test'],
    [{ servername: 'a.test', minVersion: 'TLSv1.3', maxVersion: 'TLSv1.3' }, 'name a.test'],
    [{ servername: 'x'.repeat(60), ALPNProtocols: ['h2', 'http/1.1'] }, `name ${'x'.repeat(60)}`],
    [{ servername: '' }, 'name none'],
    [{ servername: '', maxVersion: 'TLSv1.2' }, 'name none'],
  ]
  for (const [options, verdict] of table) {
    const { port, hello } = await helloTaker(t)
    const socket = tlsConnect({ host: '127.0.0.1', port, ...options })
    socket.on('error', () => {})
    const closed = new Promise(resolve => socket.once('close', resolve))
    t.equal(read(await hello).verdict, verdict)
    await closed
  }
})

t.test('reads the ClientHellos of OpenSSL', { skip: needs('openssl') }, async t => {
  const table: [string[], string][] = [
    [['-servername', 'a.test'], 'name a.test'],
    [['-servername', 'a.test', '-tls1_2'], 'name a.test'],
    [['-servername', 'a.test', '-tls1_3'], 'name a.test'],
    [['-noservername'], 'name none'],
    [['-noservername', '-tls1_2'], 'name none'],
  ]
  for (const [options, verdict] of table) {
    const { port, hello } = await helloTaker(t)
    const client = run('openssl', ['s_client', '-connect', `127.0.0.1:${port}`, ...options])
    const [bytes] = await Promise.all([hello, client])
    t.equal(read(bytes).verdict, verdict, options.join(' '))
  }
})
