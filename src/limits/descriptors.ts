/**
 * The last file descriptors of a process, which are kept for what it does itself: no connection and no stored content
 * gets one. Without any it could read no configuration and no name server's answer; and a worker of node:cluster loses
 * a connection that is passed to it, and is passed no other from then on.
 */
import { errorCode } from '../errors.js'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import { devNull } from 'node:os'

/** How many: more than a process needs at a time. */
export const KEPT_DESCRIPTORS = 16

/** The limit may be changed from outside while the process runs; how often it is looked at, in milliseconds. */
const LOOK_MS = 1000

export interface Descriptors {
  /** Whether this is one of the last: who has it is to give it back at once. */
  isKept(descriptor: number | undefined): boolean
}

/** Where the limit is not known: none is kept. */
export const NO_DESCRIPTOR_KEPT: Descriptors = { isKept: () => false }

export class LimitedDescriptors implements Descriptors {
  readonly #limit: () => number | undefined
  readonly #now: () => number
  #firstKept = Number.POSITIVE_INFINITY
  #lookedAt = Number.NEGATIVE_INFINITY

  /**
   * @param limit how many the process may have now; undefined when that can not be told
   * @param now milliseconds, monotonic
   */
  constructor(limit: () => number | undefined, now: () => number) {
    this.#limit = limit
    this.#now = now
  }

  /** The system gives out the lowest that is free: where one of the last was given, all others are in use. */
  isKept(descriptor: number | undefined): boolean {
    if (descriptor === undefined) return false
    const now = this.#now()
    if (now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now
      const limit = this.#limit()
      if (limit !== undefined) this.#firstKept = limit - KEPT_DESCRIPTORS
    }
    return descriptor >= this.#firstKept
  }
}

/** Undefined before it has one, and once it has none any more. Node tells it nowhere else. */
export function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null }
  const descriptor = handle?.fd
  return descriptor === undefined || descriptor < 0 ? undefined : descriptor
}

/**
 * The one that the next file or socket gets, for what is opened out of sight: higher than any when there is none left,
 * undefined where it can not be told.
 */
export function nextDescriptor(): number | undefined {
  try {
    const descriptor = openSync(devNull, 'r')
    closeSync(descriptor)
    return descriptor
  } catch (error) {
    return isExhausted(error) ? Number.POSITIVE_INFINITY : undefined
  }
}

function isExhausted(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'EMFILE' || code === 'ENFILE'
}

/** As the system would refuse to give it out. */
export function noDescriptor(): Error {
  return Object.assign(new Error('too many open files'), { code: 'EMFILE' })
}
