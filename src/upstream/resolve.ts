/**
 * Names to addresses, through the system's resolver, with one time limit and one query for all who ask for the same
 * name at once. A name that DNS does not know is 502; only our own clock makes 504 (RFC 9209 §2.3.1, §2.3.2).
 */

import { ProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import { errorCode } from './failures.js'

/** All addresses of a name, in the resolver's order; rejects with an error that has a `code`. */
export type Lookup = (name: string) => Promise<readonly string[]>

export interface Resolver {
  /**
   * @param name a host name in lower case, without trailing dot
   * @throws ProxyError dns_error 502 or dns_timeout 504, or the signal's reason
   */
  resolve(name: string, signal: CancelSignal): Promise<readonly string[]>
}

export function createResolver(lookup: Lookup, timeoutMs: number): Resolver {
  const inFlight = new Map<string, Promise<readonly string[]>>()

  const query = (name: string): Promise<readonly string[]> => {
    const running = inFlight.get(name)
    if (running !== undefined) return running
    const started = lookup(name).finally(() => inFlight.delete(name))
    inFlight.set(name, started)
    return started
  }

  return {
    async resolve(name, signal) {
      // RFC 6761 §6.4: the answer for .invalid is known, and asking would only tell somebody about it.
      if (name === 'invalid' || name.endsWith('.invalid')) throw notFound(name, 'ENOTFOUND')
      const addresses = await withLimit(query(name), timeoutMs, signal, name)
      if (addresses.length === 0) throw notFound(name, 'ENODATA')
      return addresses
    },
  }
}

async function withLimit<T>(
  work: Promise<T>,
  timeoutMs: number,
  signal: CancelSignal,
  name: string,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  let onAbort: (() => void) | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new ProxyError('dns_timeout', `no DNS answer in time for ${name}`))
    }, timeoutMs)
    onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
  try {
    return await Promise.race([work, limit])
  } catch (error) {
    if (error instanceof ProxyError || error === signal.reason) throw error
    throw notFound(name, errorCode(error), error)
  } finally {
    clearTimeout(timer)
    if (onAbort !== undefined) signal.removeEventListener('abort', onAbort)
  }
}

function notFound(name: string, code: string, cause?: unknown): ProxyError {
  const missing = code === 'ENOTFOUND' || code === 'ENODATA'
  return new ProxyError('dns_error', missing ? `no address found for ${name}` : `DNS failed for ${name}`, {
    cause,
    detail: missing
      ? `DNS has no address for ${name}.`
      : `The DNS server could not answer for ${name}${code === '' ? '' : ` (${code})`}.`,
  })
}
