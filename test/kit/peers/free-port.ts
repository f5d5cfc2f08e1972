/** A port on which nothing listens, and which stays free until the test itself uses it. */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { OTHER_PROCESS_MS, until } from '../until.js'

/** Below the ports that the system assigns for port 0, which another test may request at any time. */
const FIRST = 20_000
const LAST = 32_767

/** Free on every address of this machine. */
export async function freePort(): Promise<number> {
  return until('a free port', async () => {
    const port = randomInt(FIRST, LAST + 1)
    return (await isFree(port)) && port
  })
}

/** Whether all listeners, which may be several processes that share the port, have released it. */
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
 * Waits until nothing listens there on 127.0.0.1. It does not try to connect, as the port may already belong to another
 * listener.
 */
export async function untilFree(port: number): Promise<void> {
  await until(`port ${port} to be free`, () => isFree(port, '127.0.0.1'), { everyMs: OTHER_PROCESS_MS })
}
