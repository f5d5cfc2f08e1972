/**
 * Compares the store with nginx, which has the same content as a file: one worker each, no access logs, the same
 * connections. PUT is not compared: nginx responds before the file is durable.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findProgram } from './children.js'
import { BODY_BYTES } from './origin.js'
import { launch, type RunningProxy, type SluiceProgram, type Starter } from './proxies.js'
import { requestLoad } from './request-load.js'
import type { Load } from './sample.js'

export const STORE_CONCURRENCY = 48
const CONTENT = Buffer.alloc(BODY_BYTES, 'x')
const PATH = '/cas/1024.bin'

/** @param disk a directory on a disk, for the content */
export function sluiceStore({ node, program, nodeArgs = [] }: SluiceProgram, disk: string): Starter {
  return async (children, directory) => {
    const args = (_port: number, file: string) => [...nodeArgs, program, '--config', file]
    const running = await launch(children, directory, node, args, {
      file: 'sluice.yaml',
      text: port => `version: 1
listen: { proxy: ["127.0.0.1:${port}"], admin: "127.0.0.1:0" }
origins: [{ path: /, store: { directory: ${JSON.stringify(join(disk, 'store'))} } }]
log: { format: json, level: warn }
shutdown: { drain: 0s }
`,
    })
    const headers = { 'Content-Type': 'application/octet-stream' }
    const response = await fetch(urlOf(running), { method: 'PUT', headers, body: CONTENT })
    if (!response.ok) throw new Error(`PUT: ${response.status}`)
    return running
  }
}

/** @returns undefined if it is not installed */
function startNginx(
  servers: (port: number, directory: string) => string,
  prepare = async () => {},
): Starter | undefined {
  const program = findProgram('nginx')
  if (program === undefined) return undefined
  return async (children, directory) => {
    await prepare()
    const error = join(directory, 'error.log')
    return launch(children, directory, program, (_port, file) => ['-e', error, '-p', directory, '-c', file], {
      file: 'nginx.conf',
      text: port => `daemon off;
worker_processes 1;
pid ${directory}/nginx.pid;
error_log ${error};
events { worker_connections 20000; }
http {
  access_log off;
  default_type application/octet-stream;
  sendfile on;
  keepalive_timeout 600s;
  keepalive_requests 100000000;
${servers(port, directory)}
}
`,
    })
  }
}

/**
 * @param origin the port on 127.0.0.1 that requests are forwarded to
 * @param caches whether responses come from a cache, in files in the directory of its logs
 * @returns undefined if it is not installed
 */
export function nginxGateway(origin: number, caches = false): Starter | undefined {
  return startNginx(
    (port, directory) => `${caches ? `  proxy_cache_path ${directory}/cache keys_zone=bench:16m;` : ''}
  upstream origin { server 127.0.0.1:${origin}; keepalive 128; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      ${caches ? 'proxy_cache bench;' : ''}
    }
  }`,
  )
}

/**
 * @param disk a directory on a disk, for the content
 * @returns undefined if it is not installed
 */
export function nginxFiles(disk: string): Starter | undefined {
  const root = join(disk, 'nginx')
  return startNginx(
    port => `  server { listen 127.0.0.1:${port}; root ${root}; }`,
    async () => {
      await mkdir(join(root, 'cas'), { recursive: true })
      await writeFile(join(root, PATH), CONTENT)
      // Its worker drops root privileges.
      for (const path of [disk, root, join(root, 'cas')]) await chmod(path, 0o755)
    },
  )
}

/** GET of the same 1 KiB, repeatedly. */
export function storedGetLoad(port: number): Load {
  const request = Buffer.from(
    `GET ${PATH} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\n\r\n`,
  )
  return requestLoad(
    port,
    { request: () => request, statuses: [200], responseBytes: BODY_BYTES },
    STORE_CONCURRENCY,
  )
}

/** PUT of 1 KiB, to a separate resource for each connection. */
export function putLoad(port: number): Load {
  const requests = Array.from({ length: STORE_CONCURRENCY }, (_, connection) =>
    Buffer.from(
      `PUT /put/${connection} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUser-Agent: bench/1.0\r\n` +
        `Content-Type: application/octet-stream\r\nContent-Length: ${BODY_BYTES}\r\n\r\n${CONTENT}`,
    ),
  )
  const request = (connection: number): Buffer => requests[connection] ?? CONTENT
  return requestLoad(port, { request, statuses: [201, 204], responseBytes: 0 }, STORE_CONCURRENCY)
}

function urlOf({ port }: RunningProxy): string {
  return `http://127.0.0.1:${port}${PATH}`
}
