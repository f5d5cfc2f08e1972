/**
 * A git server: passes requests to `git http-backend` by CGI (RFC 3875), which implements git's smart protocol.
 */
import { spawn } from 'node:child_process'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** Serves every bare repository below `root`, for reading and writing. */
export function gitBackend(root: string): RequestListener {
  return (request, response) => {
    void serve(root, request, response).catch(() => response.destroy())
  }
}

async function serve(root: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, search } = new URL(request.url ?? '/', 'http://origin')
  const child = spawn('git', ['http-backend'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      REMOTE_USER: 'test',
      REQUEST_METHOD: request.method,
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      CONTENT_TYPE: request.headers['content-type'],
      CONTENT_LENGTH: request.headers['content-length'],
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
  })
  request.pipe(child.stdin)
  const output = await buffer(child.stdout)
  const end = output.indexOf('\r\n\r\n')
  for (const line of output.subarray(0, end).toString().split('\r\n')) {
    const [name = '', value = ''] = line.split(': ', 2)
    if (name === 'Status') response.statusCode = Number.parseInt(value, 10)
    else response.setHeader(name, value)
  }
  response.end(output.subarray(end + 4))
}
