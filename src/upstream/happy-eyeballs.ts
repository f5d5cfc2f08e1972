/**
 * Happy eyeballs over addresses that were already vetted (RFC 8305 §4, §5).
 *
 * Families alternate, IPv6 first; the next attempt starts when one fails or has been silent for a while, the first
 * to connect wins, and the others are closed. There is one limit over all, kept by the caller through the signal.
 */
import type { Socket } from 'node:net'
import type { IpAddress } from '../net/ip-address.js'

/** How long an attempt may be silent before the next begins beside it (RFC 8305 §5). */
export const ATTEMPT_DELAY_MS = 250

/** Alternates the families, the order within each kept (RFC 8305 §4). */
export function interleaveFamilies(addresses: readonly IpAddress[]): IpAddress[] {
  const six = addresses.filter(address => address.family === 6)
  const four = addresses.filter(address => address.family === 4)
  const ordered: IpAddress[] = []
  for (let i = 0; i < Math.max(six.length, four.length); i++) {
    const next = [six[i], four[i]]
    for (const address of next) if (address !== undefined) ordered.push(address)
  }
  return ordered
}

/**
 * @param addresses at least one
 * @param open begins to connect to one address; its socket emits `connect` or `error`
 * @returns the connected socket and its address
 * @throws the last attempt's error, or the signal's reason
 */
export function raceAttempts(
  addresses: readonly IpAddress[],
  open: (address: IpAddress) => Socket,
  signal: AbortSignal,
): Promise<{ socket: Socket; address: IpAddress }> {
  return new Promise((resolve, reject) => {
    const waiting = interleaveFamilies(addresses)
    const attempts = new Set<Socket>()
    let timer: NodeJS.Timeout | undefined

    const settle = (winner?: Socket): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      waiting.length = 0
      for (const socket of attempts) if (socket !== winner) socket.destroy()
      attempts.clear()
    }
    const onAbort = (): void => {
      settle()
      reject(signal.reason)
    }
    const next = (): void => {
      clearTimeout(timer)
      const address = waiting.shift()
      if (address === undefined) return
      let socket: Socket
      try {
        socket = open(address)
      } catch (error) {
        fail(error)
        return
      }
      attempts.add(socket)
      // Stays attached for good: a socket that was given up may still report an error.
      socket.on('error', error => {
        if (attempts.delete(socket)) fail(error)
      })
      socket.once('connect', () => {
        if (!attempts.has(socket)) return
        settle(socket)
        resolve({ socket, address })
      })
      if (waiting.length > 0) timer = setTimeout(next, ATTEMPT_DELAY_MS)
    }
    const fail = (error: unknown): void => {
      if (waiting.length > 0) next()
      else if (attempts.size === 0) {
        settle()
        reject(error)
      }
    }

    if (signal.aborted) {
      reject(signal.reason)
      return
    }
    signal.addEventListener('abort', onAbort, { once: true })
    next()
  })
}
