/**
 * The thread that computes bcrypt: a check takes tens of milliseconds or more, and must not block the proxy for this time. The
 * thread answers each message with one message, in order.
 */
import { parentPort } from 'node:worker_threads'
import { compareSync } from 'bcryptjs'

export interface PasswordQuestion {
  readonly password: string
  /** A bcrypt hash, with salt and cost. */
  readonly hash: string
}

parentPort?.on('message', ({ password, hash }: PasswordQuestion) => {
  parentPort?.postMessage(compareSync(password, hash))
})
