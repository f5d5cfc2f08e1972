/**
 * Passes the events of a socket to one handler at a time: first to the code that dials, then to the connection that
 * reads and writes, then to a tunnel that takes the socket over.
 *
 * The listeners are the same functions for every socket and are added once. Listeners of each socket's own would be
 * closures that reference the whole connection, and V8 tends to allocate the table of listeners, which Node creates as
 * an object literal, in the old generation: a closed connection would then stay in memory until the next full
 * collection. On Node 26, 4 KB of the 22 KB of a short tunnel were promoted that way, and the collector took 8 % of the
 * time.
 */
import type { Socket } from 'node:net'

/** The base class; its methods do nothing until they are overridden. */
export class SocketHandler {
  /** The system is about to attempt a connection. */
  onConnectionAttempt(): void {}
  onConnect(): void {}
  onData(_chunk: Buffer): void {}
  onEnd(): void {}
  onDrain(): void {}
  onError(_error: Error): void {}
  onClose(): void {}
}

const HANDLER = Symbol('handler')
/** Whether the data of the socket are passed on. */
const READ = Symbol('read')

type HandledSocket = Socket & { [HANDLER]?: SocketHandler; [READ]?: boolean }

/** A placeholder: another handler takes over the socket in the same turn. */
export const NOBODY = new SocketHandler()

/** Passes all events except `data` to this handler from now on, instead of to the previous one. */
export function handleEvents(socket: HandledSocket, handler: SocketHandler): void {
  const isFirst = socket[HANDLER] === undefined
  socket[HANDLER] = handler
  if (!isFirst) return
  socket.on('end', onEnd)
  socket.on('drain', onDrain)
  socket.on('error', onError)
  socket.on('close', onClose)
}

/** As `handleEvents`, for a socket that is not yet connected. */
export function handleConnecting(socket: HandledSocket, handler: SocketHandler): void {
  handleEvents(socket, handler)
  socket.on('connectionAttempt', onConnectionAttempt)
  socket.on('connect', onConnect)
}

/** Also passes received data to the current handler; the data flow from now on unless the socket is paused. */
export function handleData(socket: HandledSocket): void {
  if (socket[READ] === true) return
  socket[READ] = true
  socket.on('data', onData)
}

/** Passes no events and data any more; an error of the socket does not reach the process. */
export function ignoreEvents(socket: HandledSocket): void {
  socket.off('data', onData)
  socket[READ] = false
  handleEvents(socket, NOBODY)
}

function onConnectionAttempt(this: HandledSocket): void {
  this[HANDLER]?.onConnectionAttempt()
}

function onConnect(this: HandledSocket): void {
  this[HANDLER]?.onConnect()
}

function onData(this: HandledSocket, chunk: Buffer): void {
  this[HANDLER]?.onData(chunk)
}

function onEnd(this: HandledSocket): void {
  this[HANDLER]?.onEnd()
}

function onDrain(this: HandledSocket): void {
  this[HANDLER]?.onDrain()
}

function onError(this: HandledSocket, error: Error): void {
  this[HANDLER]?.onError(error)
}

function onClose(this: HandledSocket): void {
  this[HANDLER]?.onClose()
}
