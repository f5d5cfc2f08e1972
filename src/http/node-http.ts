/**
 * Node's own HTTP module, loaded with `require` instead of `import`. An import reads every export of the module, and
 * the getters of `WebSocket` and `MessageEvent` load the fetch client, HTTP/2 and zlib in Node 22 and later: 7 MB of
 * memory and 20 ms at every start, for modules that are never used here.
 */
import { createRequire } from 'node:module'

const http = createRequire(import.meta.url)('node:http') as typeof import('node:http')

export const { Agent, createServer, request, STATUS_CODES } = http
