import t, { type Test } from 'tap'
import { ReadBeforeFailing } from '../../src/upstream/read-before-failing.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { untilStable } from '../kit/peers/until-stable.js'

/** A client that is writing a lot to a peer that has stopped reading. */
async function writing(t: Test) {
  const origin = await rawOrigin(t)
  const client = await rawClient(t, origin.port)
  const writing = new ReadBeforeFailing(client.socket)
  writing.begin()
  const peer = await origin.accept()
  peer.socket.pause()
  return { client, peer, failAtOnce: () => writing.release() }
}

t.test('what was received before a reset is read although writing fails (RFC 9112 §9.6)', async t => {
  const { client, peer } = await writing(t)
  client.socket.write(Buffer.alloc(100_000))
  peer.write('answer')
  peer.destroy()
  await client.until(1)
  client.socket.write(Buffer.alloc(10_000_000))
  t.match(await client.untilEnd(), /^nswer/)
  await client.closed()
})

t.test('the error is reported once reading has ended', async t => {
  const { client, peer } = await writing(t)
  const failed = new Promise<Error>(resolve => client.socket.once('error', resolve))
  const written = new Promise<Error | null | undefined>(resolve => {
    client.socket.write(Buffer.alloc(20_000_000), error => resolve(error))
  })
  peer.write('answer')
  peer.destroy()
  t.match(await written, { code: /ECONNRESET|EPIPE/ })
  t.match(await failed, { code: /ECONNRESET|EPIPE/ })
  t.equal(client.received, 'answer')
})

t.test('successful writes are not delayed, in one piece or several', async t => {
  const { client, peer } = await writing(t)
  client.socket.cork()
  const all = ['a', 'b', 'c'].map(piece => new Promise(resolve => client.socket.write(piece, resolve)))
  client.socket.uncork()
  await Promise.all(all)
  peer.socket.resume()
  t.equal(await peer.until(3), 'abc')
})

t.test('after release a write fails at once', async t => {
  // As long as an error is delayed.
  pauseTimers(t, 5000)
  const { client, peer, failAtOnce } = await writing(t)
  failAtOnce()
  // A reader that has stopped sees no end, so only the write itself can fail.
  client.socket.pause()
  peer.write(Buffer.alloc(1_000_000))
  await untilStable(() => client.socket.readableLength)
  peer.reset()
  const error = await new Promise<Error>(resolve => {
    client.socket.once('error', resolve)
    client.socket.write(Buffer.alloc(10_000_000))
  })
  t.match(error, { code: /ECONNRESET|EPIPE/ })
})
