/** What the events of a TLS socket mean. The handshakes themselves are in test/wire/origins-tls.test.ts. */
import { EventEmitter } from 'node:events'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { awaitHandshake } from '../../src/upstream/tls-handshake.js'

class FakeSocket extends EventEmitter {
  authorizationError: string | null = null
  destroyed = false
  destroy(): void {
    this.destroyed = true
  }
}

function begin(timeoutMs = 60_000, signal = new AbortController().signal) {
  const socket = new FakeSocket()
  const done = awaitHandshake(socket as unknown as TLSSocket, { where: 'up.test:443', timeoutMs, signal })
  return { socket, done }
}

const failure = (code: string) => Object.assign(new Error('secret'), { code })

t.test('the handshake is complete with secureConnect; later events are not handled', async t => {
  const { socket, done } = begin()
  socket.emit('secureConnect')
  await done
  socket.emit('error', failure('ECONNRESET'))
  socket.emit('close')
  t.notOk(socket.destroyed)
})

t.test('the handshake fails with the error for its cause (RFC 9209 §2.3.14, §2.3.15)', async t => {
  for (const [code, unverified, type, status] of [
    ['CERT_HAS_EXPIRED', 'CERT_HAS_EXPIRED', 'tls_certificate_error', 502],
    ['EPROTO', null, 'tls_protocol_error', 502],
    ['ERR_SSL_WRONG_VERSION_NUMBER', null, 'tls_protocol_error', 502],
    ['ECONNRESET', null, 'connection_terminated', 502],
    ['ETIMEDOUT', null, 'connection_timeout', 504],
  ] as const) {
    const { socket, done } = begin()
    socket.authorizationError = unverified
    socket.emit('error', failure(code))
    await t.rejects(done, { type, status, message: /up\.test:443/ }, code)
    t.ok(socket.destroyed)
    socket.emit('error', failure(code))
  }
  const closed = begin()
  closed.socket.emit('close')
  await t.rejects(closed.done, { message: /./, type: 'connection_terminated' })
})

t.test('the handshake fails on timeout and when the signal aborts', async t => {
  const late = begin(1)
  await t.rejects(late.done, { message: /./, type: 'connection_timeout', status: 504 })
  t.ok(late.socket.destroyed)
  const controller = new AbortController()
  const aborted = begin(60_000, controller.signal)
  controller.abort(new Error('gone'))
  await t.rejects(aborted.done, { message: 'gone' })
  t.ok(aborted.socket.destroyed)
  await t.rejects(begin(60_000, controller.signal).done, { message: 'gone' })
})
