/**
 * The suite's server, as a separate process. Its handlers are served on 127.0.0.1 here, as the suite's own entry point
 * would listen on all addresses. Sends `{ port }` to its parent.
 *
 *     node origin.js FOLDER_OF_THE_SUITE PORT
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

type Handler = (segments: string[], request: IncomingMessage, response: ServerResponse) => void

const [folder = '', port = '0'] = process.argv.slice(2)

async function handler(name: string): Promise<Handler> {
  const file = pathToFileURL(join(folder, 'server', `${name}.mjs`)).href
  return ((await import(file)) as { default: Handler }).default
}

const handlers = new Map<string, Handler>([
  ['config', await handler('handle-config')],
  ['state', await handler('handle-state')],
  ['test', await handler('handle-test')],
])

const server = createServer((request, response) => {
  const [, first = '', ...segments] = new URL(request.url ?? '/', 'http://localhost').pathname.split('/')
  const handle = handlers.get(first)
  if (handle !== undefined) handle(segments, request, response)
  else response.writeHead(404).end()
})
server.listen(Number(port), '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('disconnect', () => process.exit())
