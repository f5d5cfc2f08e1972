/**
 * The content of a request on its way into the store: into a file, into memory where it is short, or nowhere.
 *
 * The client is slowed down to what the disk takes; no upload is ever in memory as a whole. One that breaks off leaves
 * nothing.
 */
import type { CancelSignal, Exchange } from '../../exchange.js'

/** Bytes that may wait for the disk before the client has to. */
const MAX_WAITING_BYTES = 1024 * 1024

/** The client went away before its request was complete; there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/**
 * Reads the content to its end.
 * @param take is given one piece after another, each when it is done with the one before
 * @throws ClientGone, and whatever `take` throws; the rest of the content is not read then
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
    // Not before `take` is done, whose file the caller closes then.
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
    // Only now may the client send; without the wait nothing tells it to.
    if (exchange.facts.expectContinue) exchange.inform(100, 'Continue', [])
  })
}

/** Reads content that means nothing to its end, so that the connection can be used again. */
export async function discardContent(exchange: Exchange): Promise<void> {
  await readContent(exchange, async () => {})
}

/** What is waited for. @throws ClientGone as soon as the client is gone */
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
