/**
 * What tells whether a key was invalidated while its response was on its way: its generation, which an invalidation takes
 * away, and the mark of the latest invalidation, where it had no generation.
 */
import { randomBytes } from 'node:crypto'
import type { KeyNames } from './keys.js'
import type { RedisLink, Reply } from './link.js'

export interface KeyState {
  /** Undefined: nothing has been stored under the key since the last invalidation. */
  readonly generation: string | undefined
  readonly invalidation: string | undefined
}

/** The state of a key when a request was sent; undefined where it could not be learnt. */
export class RedisMark {
  readonly state: Promise<KeyState | undefined>

  constructor(state: Promise<KeyState | undefined>) {
    this.state = state.catch(() => undefined)
  }
}

/** @throws as `send` does */
export async function readState(link: RedisLink, names: KeyNames): Promise<KeyState> {
  const generation = link.send('HGET', names.uri.generations, names.partition)
  const invalidation = link.send('GET', names.invalidation)
  return stateOf(...(await Promise.all([generation, invalidation])))
}

export function stateOf(generation: Reply | undefined, invalidation: Reply | undefined): KeyState {
  return { generation: textOf(generation), invalidation: textOf(invalidation) }
}

export function randomId(): string {
  return randomBytes(16).toString('base64url')
}

function textOf(reply: Reply | undefined): string | undefined {
  return Buffer.isBuffer(reply) ? reply.toString('latin1') : undefined
}
