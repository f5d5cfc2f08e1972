/**
 * The state of a key, which shows whether it was invalidated while a response was in progress: its generation, which an
 * invalidation deletes, and the id of the latest invalidation, for keys without a generation.
 */
import { randomBytes } from 'node:crypto'
import type { KeyNames } from './keys.js'
import type { RedisLink, Reply } from './link.js'

export interface KeyState {
  /** Undefined if nothing was stored under the key since the last invalidation. */
  readonly generation: string | undefined
  readonly invalidation: string | undefined
}

/** The state of a key when a request was sent; undefined if it could not be read. */
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
