import { Socket } from 'node:net'
import t from 'tap'
import { resetSocket } from '../../src/tunnel/reset-socket.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'

t.test('resets a TCP connection', async t => {
  const origin = await rawOrigin(t)
  const client = await rawClient(t, origin.port)
  const peer = await origin.accept()
  resetSocket(client.socket)
  t.equal(await peer.outcome(), 'reset')
  t.ok(client.socket.destroyed)
  resetSocket(client.socket)
})

t.test('closes a connection whose FIN is just being sent, which the system does not reset', async t => {
  const origin = await rawOrigin(t)
  const { socket } = await rawClient(t, origin.port)
  const closed = new Promise(resolve => socket.once('close', resolve))
  socket.end()
  // The FIN is asked for in the next tick, and done in the next turn of the loop.
  await new Promise<void>(resolve => process.nextTick(resolve))
  t.notOk(socket.writableFinished)
  resetSocket(socket)
  await closed
  t.equal(await (await origin.accept()).outcome(), 'end')
  t.ok(socket.destroyed)
})

t.test('closes what can not be reset', async t => {
  const socket = new Socket()
  t.intercept(socket, 'resetAndDestroy', {
    value: () => {
      throw new TypeError('not TCP')
    },
  })
  resetSocket(socket)
  t.ok(socket.destroyed)
})
