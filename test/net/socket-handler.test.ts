import { Socket } from 'node:net'
import t from 'tap'
import {
  handleConnecting,
  handleData,
  handleEvents,
  ignoreEvents,
  SocketHandler,
} from '../../src/net/socket-handler.js'

const EVENTS = ['connectionAttempt', 'connect', 'data', 'end', 'drain', 'error', 'close']

class Recorder extends SocketHandler {
  readonly events: string[] = []

  override onConnectionAttempt(): void {
    this.events.push('connectionAttempt')
  }

  override onConnect(): void {
    this.events.push('connect')
  }

  override onData(chunk: Buffer): void {
    this.events.push(`data ${chunk}`)
  }

  override onEnd(): void {
    this.events.push('end')
  }

  override onDrain(): void {
    this.events.push('drain')
  }

  override onError(error: Error): void {
    this.events.push(`error ${error.message}`)
  }

  override onClose(): void {
    this.events.push('close')
  }
}

function emitAll(socket: Socket): void {
  for (const event of EVENTS) {
    if (event === 'data') socket.emit(event, Buffer.from('x'))
    else if (event === 'error') socket.emit(event, new Error('no'))
    else socket.emit(event)
  }
}

const ALL = ['connectionAttempt', 'connect', 'data x', 'end', 'drain', 'error no', 'close']

t.test('every event goes only to the current handler', async t => {
  const socket = new Socket()
  const [first, second] = [new Recorder(), new Recorder()]
  handleConnecting(socket, first)
  handleData(socket)
  emitAll(socket)
  t.same(first.events, ALL)
  handleEvents(socket, second)
  emitAll(socket)
  t.same([first.events, second.events], [ALL, ALL])
})

t.test(
  'a socket has one listener for each event however often its handler changes, shared by all sockets',
  async t => {
    const [one, other] = [new Socket(), new Socket()]
    for (const socket of [one, other, one]) handleEvents(socket, new Recorder())
    for (const event of ['drain', 'error', 'close'])
      t.same([one.listenerCount(event), one.listeners(event)], [1, other.listeners(event)], event)
    // Node adds one of its own.
    t.equal(one.listenerCount('end'), other.listenerCount('end'))
  },
)

t.test('a socket whose events are ignored fails silently', async t => {
  const socket = new Socket()
  const handler = new Recorder()
  handleConnecting(socket, handler)
  handleData(socket)
  ignoreEvents(socket)
  emitAll(socket)
  t.same(handler.events, [])
  t.equal(socket.listenerCount('data'), 0, 'whoever takes the socket over reads it')
  handleData(socket)
  t.equal(socket.listenerCount('data'), 1)
})

t.test('a handler that overrides nothing accepts every event', async t => {
  const socket = new Socket()
  handleConnecting(socket, new SocketHandler())
  handleData(socket)
  t.doesNotThrow(() => emitAll(socket))
})

t.test('received data go to the handler once, however often that is requested', async t => {
  const socket = new Socket()
  const [first, second] = [new Recorder(), new Recorder()]
  handleEvents(socket, first)
  handleData(socket)
  handleEvents(socket, second)
  handleData(socket)
  socket.emit('data', Buffer.from('x'))
  t.same([first.events, second.events], [[], ['data x']])
})
