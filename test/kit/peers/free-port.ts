/** A port that nothing listens on, and that stays so until the test itself has somebody listen there. */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { OTHER_PROCESS_MS, until } from '../until.js'

/** Below those that the system gives to whoever asks for any port, which another test may do at any moment. */
const FIRST = 20_000
const LAST = 32_767

/** Free on every address of this machine. */
export async function freePort(): Promise<number> {
  return until('a free port', async () => {
    const port = randomInt(FIRST, LAST + 1)
    return (await isFree(port)) && port
  })
}

/** Whether all that listened there, also several processes that share it, have let go of it. */
export async function isFree(port: number, host?: string): Promise<boolean> {
  const server = createServer(socket => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false)
      else reject(error)
    })
    server.listen({ port, host }, () => server.close(() => resolve(true)))
  })
}

/**
 * Waits until nobody listens there on 127.0.0.1 any more. Asking by a connection would lead to whoever has been given
 * the port by now.
 */
export async function untilFree(port: number): Promise<void> {
  await until(`port ${port} to be free`, () => isFree(port, '127.0.0.1'), { everyMs: OTHER_PROCESS_MS })
}
