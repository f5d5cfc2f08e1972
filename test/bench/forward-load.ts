/** GET requests in absolute-form. */
import { BODY_BYTES } from './origin.js'
import { requestLoad } from './request-load.js'
import type { Load } from './sample.js'

/** @param port where to connect: the proxy, or the origin itself */
export function forwardLoad(port: number, originPort: number, concurrency: number): Load {
  const request = Buffer.from(
    `GET http://127.0.0.1:${originPort}/packages/left-pad/index.json HTTP/1.1\r\nHost: 127.0.0.1:${originPort}\r\n` +
      'User-Agent: bench/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n',
  )
  return requestLoad(
    port,
    { request: () => request, statuses: [200], responseBytes: BODY_BYTES },
    concurrency,
  )
}
