/**
 * Reads the content of a request, which goes to a file, to memory if it is short, or is discarded.
 *
 * The client can send no faster than the disk can write; no upload is ever held in memory as a whole. Nothing is left of
 * an upload that is aborted.
 */
import type { CancelSignal, Exchange } from '../../exchange.js'

/** Bytes that may wait for the disk before the client is paused. */
const MAX_WAITING_BYTES = 1024 * 1024

/** The client has closed the connection before its request was complete, so no response can be sent. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/**
 * Reads the content to its end.
 * @param take called with the next pieces as soon as it has finished with the ones before
 * @throws ClientGone, and what `take` throws; the rest of the content is not read then
 */
export async function readContent(
  exchange: Exchange,
  take: (chunks: readonly Buffer[]) => Promise<void>,
): Promise<void> {
  if (exchange.content.length === 0) return
  await new Promise<void>((resolve, reject) => {
    let waiting: Buffer[] = []
    let waitingBytes = 0
    let ended = false
    let busy = false
    let failure: { readonly error: unknown } | undefined
    // It waits for `take`, as the caller then closes the file that this writes to.
    const settle = (): void => {
      if (busy) return
      if (failure !== undefined) reject(failure.error)
      else if (ended) resolve()
    }
    const fail = (error: unknown): void => {
      failure ??= { error }
      settle()
    }
    const work = async (): Promise<void> => {
      busy = true
      try {
        while (waiting.length > 0 && failure === undefined) {
          const chunks = waiting
          waiting = []
          waitingBytes = 0
          exchange.content.resume()
          await take(chunks)
        }
      } catch (error) {
        failure ??= { error }
      }
      busy = false
      settle()
    }
    exchange.onAborted(() => fail(new ClientGone()))
    if (failure !== undefined) return
    exchange.content.start({
      data: chunk => {
        if (failure !== undefined) return false
        waiting.push(chunk)
        waitingBytes += chunk.length
        if (!busy) void work()
        return waitingBytes < MAX_WAITING_BYTES
      },
      end: () => {
        ended = true
        settle()
      },
    })
    // A client that expects 100 waits for this before it sends its content.
    if (exchange.facts.expectContinue) exchange.sendInterim(100, 'Continue', [])
  })
}

/** Reads content without a meaning to its end, so that the connection can be reused. */
export async function discardContent(exchange: Exchange): Promise<void> {
  await readContent(exchange, async () => {})
}

/** Waits for `work`. @throws ClientGone as soon as the signal aborts, and what `work` throws */
export async function unlessGone<T>(work: Promise<T>, signal: CancelSignal): Promise<T> {
  if (signal.aborted) throw new ClientGone()
  let leave = (): void => {}
  const gone = new Promise<never>((_, reject) => {
    leave = () => reject(new ClientGone())
  })
  signal.addEventListener('abort', leave)
  try {
    return await Promise.race([work, gone])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}
