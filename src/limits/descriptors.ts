/**
 * The last file descriptors of a process are reserved for its own use: connections and stored content do not get them.
 * Without a free descriptor the process could not read its configuration or the answer of a name server, and a worker of
 * node:cluster would lose a connection that is passed to it and receive no further ones.
 */
import { errorCode } from '../errors.js'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import { devNull } from 'node:os'

/** How many are reserved: more than the process itself needs at a time. */
export const KEPT_DESCRIPTORS = 16

/** How often the limit is read, in milliseconds: it may be changed from outside while the process runs. */
const LOOK_MS = 1000

export interface Descriptors {
  /** Whether this descriptor is reserved; its holder has to close it at once. */
  isKept(descriptor: number | undefined): boolean
}

/** For a process whose limit is not known: nothing is reserved. */
export const NO_DESCRIPTOR_KEPT: Descriptors = { isKept: () => false }

export class LimitedDescriptors implements Descriptors {
  readonly #limit: () => number | undefined
  readonly #now: () => number
  #firstKept = Number.POSITIVE_INFINITY
  #lookedAt = Number.NEGATIVE_INFINITY

  /**
   * @param limit how many the process may have now; undefined if that is not known
   * @param now milliseconds, monotonic
   */
  constructor(limit: () => number | undefined, now: () => number) {
    this.#limit = limit
    this.#now = now
  }

  /** The system assigns the lowest free descriptor: if it is a reserved one, all others are in use. */
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

/** Undefined before the socket has a descriptor and after it has lost it. Node has no public property for it. */
export function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null }
  const descriptor = handle?.fd
  return descriptor === undefined || descriptor < 0 ? undefined : descriptor
}

/**
 * The descriptor that the next file or socket will get, for libraries that open them internally: Infinity if there is none
 * left, undefined if it cannot be determined.
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

/** The error that the system reports if there is no descriptor left. */
export function noDescriptor(): Error {
  return Object.assign(new Error('too many open files'), { code: 'EMFILE' })
}
