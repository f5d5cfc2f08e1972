/**
 * Names to addresses for those who dial, with one time limit. A name that DNS does not know is 502; only our own
 * clock makes 504 (RFC 9209 §2.3.1, §2.3.2).
 */

import { ProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import type { DnsCache } from './dns-cache.js'
import { errorCode, isNotFound, outOfDescriptors, unanswered } from './failures.js'

export interface Resolver {
  /** The addresses of a name that need not be asked for now; undefined when they have to be. */
  kept(name: string): readonly string[] | undefined
  /**
   * @param name a host name in lower case, without trailing dot
   * @param asker whose signal ends the wait; it is looked at only when there is something to wait for
   * @returns at least one address
   * @throws ProxyError dns_error 502 or dns_timeout 504, or the signal's reason
   */
  resolve(name: string, asker: { readonly signal: CancelSignal }): Promise<readonly string[]>
}

export function createResolver(cache: DnsCache, timeoutMs: number): Resolver {
  return {
    kept(name) {
      const addresses = cache.kept(name)
      return addresses === undefined || addresses.length === 0 ? undefined : addresses
    },
    async resolve(name, asker) {
      // RFC 6761 §6.4: the answer for .invalid is known, and asking would only tell somebody about it.
      if (name === 'invalid' || name.endsWith('.invalid')) throw failed(name)
      const addresses =
        cache.kept(name) ?? (await withLimit(cache.lookup(name), timeoutMs, asker.signal, name))
      if (addresses.length === 0) throw failed(name)
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
    timer = setTimeout(() => reject(unanswered(name)), timeoutMs)
    onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
  try {
    return await Promise.race([work, limit])
  } catch (error) {
    if (error instanceof ProxyError || error === signal.reason) throw error
    throw outOfDescriptors(error, name) ?? failed(name, error)
  } finally {
    clearTimeout(timer)
    if (onAbort !== undefined) signal.removeEventListener('abort', onAbort)
  }
}

/** @param cause what the lookup threw; none when it has found nothing */
function failed(name: string, cause?: unknown): ProxyError {
  if (cause === undefined || isNotFound(cause)) {
    const detail = `DNS has no address for ${name}.`
    return new ProxyError('dns_error', `no address found for ${name}`, { cause, detail })
  }
  const code = errorCode(cause)
  return new ProxyError('dns_error', `DNS failed for ${name}`, {
    cause,
    detail: `The DNS server could not answer for ${name}${code === '' ? '' : ` (${code})`}.`,
  })
}
