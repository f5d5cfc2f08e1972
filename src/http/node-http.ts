/**
 * Node's own HTTP module, required instead of imported: an import reads every export of it, and behind those named
 * `WebSocket` and `MessageEvent` Node 22 and later load their fetch client, HTTP/2 and zlib. That costs 7 MB of memory
 * and 20 ms of every start, for what is never used here.
 */
import { createRequire } from 'node:module'

const http = createRequire(import.meta.url)('node:http') as typeof import('node:http')

export const { Agent, createServer, request, STATUS_CODES } = http
