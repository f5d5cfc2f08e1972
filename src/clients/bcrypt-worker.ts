/**
 * The thread that computes bcrypt: a check takes tens of milliseconds and more, for which the proxy cannot stand
 * still. It answers each message with one, in their order.
 */
import { parentPort } from 'node:worker_threads'
import { compareSync } from 'bcryptjs'

export interface PasswordQuestion {
  readonly password: string
  /** bcrypt's, with salt and cost. */
  readonly hash: string
}

parentPort?.on('message', ({ password, hash }: PasswordQuestion) => {
  parentPort?.postMessage(compareSync(password, hash))
})
