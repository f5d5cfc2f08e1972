import { Socket } from 'node:net'
import t from 'tap'
import { ConnectionState } from '../../src/http1/connection-state.js'
import { ResponseSide } from '../../src/listener/response-side.js'

t.test('onDrain waits for a client that is behind, with what was written in this turn, too', async t => {
  const socket = new Socket()
  t.teardown(() => socket.destroy())
  let take = (): void => {}
  socket._write = (_chunk, _encoding, callback) => {
    take = callback
  }
  const response = new ResponseSide(socket, new ConnectionState())
  socket.on('drain', () => response.drained())
  response.begin({ method: 'GET', minor: 1, persistent: true })
  response.head({ status: 200, reason: 'OK', fields: [], contentLength: 1 << 20 })
  t.notOk(response.congested)
  let drained = 0
  response.onDrain(() => {
    drained += 1
  })
  await new Promise(resolve => setImmediate(resolve))
  t.equal(drained, 1, 'at once where nobody is behind')
  take()
  await new Promise(resolve => setImmediate(resolve))
  // Nothing of it has been handed to the socket yet.
  response.data(Buffer.alloc(socket.writableHighWaterMark))
  t.ok(response.congested)
  t.notOk(socket.writableNeedDrain)
  response.onDrain(() => {
    drained += 1
  })
  await new Promise(resolve => setImmediate(resolve))
  t.equal(drained, 1)
  take()
  await new Promise(resolve => setImmediate(resolve))
  t.equal(drained, 2)
})
