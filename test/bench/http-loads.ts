/** Loads of requests: in absolute-form, as clients of a forward proxy send them, and in origin-form for a gateway. */
import { BODIES, BODY_BYTES, type BodyName, type Origins } from './origin.js'
import { type RequestOptions, requestLoad } from './request-load.js'
import type { Load } from './sample.js'

const PATH = '/packages/left-pad/index.json'
const FIELDS = 'User-Agent: bench/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n'
const CONTENT = 'x'.repeat(BODY_BYTES)

/**
 * @param port the port of the proxy; undefined to connect to the origin directly
 * @param options how connections are made and used
 */
export function getLoad(
  port: number | undefined,
  origins: Origins,
  body: BodyName,
  concurrency: number,
  options: RequestOptions = {},
): Load {
  const origin = origins.http[body]
  const close = options.oneRequest === true ? 'Connection: close\r\n' : ''
  const request = Buffer.from(
    `GET http://127.0.0.1:${origin}${PATH} HTTP/1.1\r\nHost: 127.0.0.1:${origin}\r\n${FIELDS}${close}\r\n`,
  )
  return requestLoad(
    port ?? origin,
    { request: () => request, statuses: [200], responseBytes: BODIES[body] },
    concurrency,
    options,
  )
}

/** POST with 1 KiB of content and a response of 1 KiB. */
export function postLoad(port: number | undefined, origins: Origins, concurrency: number): Load {
  const origin = origins.http.kilobyte
  const request = Buffer.from(
    `POST http://127.0.0.1:${origin}${PATH} HTTP/1.1\r\nHost: 127.0.0.1:${origin}\r\n${FIELDS}` +
      `Content-Type: text/plain\r\nContent-Length: ${BODY_BYTES}\r\n\r\n${CONTENT}`,
  )
  return requestLoad(
    port ?? origin,
    { request: () => request, statuses: [200], responseBytes: BODY_BYTES },
    concurrency,
  )
}

/** GET of 1 KiB in origin-form. */
export function passthroughLoad(port: number, concurrency: number): Load {
  const request = Buffer.from(`GET ${PATH} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${FIELDS}\r\n`)
  return requestLoad(
    port,
    { request: () => request, statuses: [200], responseBytes: BODY_BYTES },
    concurrency,
  )
}

/** A load of which only responses from a cache count. */
export function hitsOf(load: Load, origins: Origins): Load {
  const before = origins.fetched()
  return { ...load, done: () => Math.max(0, load.done() - (origins.fetched() - before)) }
}
