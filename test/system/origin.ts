/**
 * The origins of the tests: servers on 127.0.0.1, with http:// and with https://, with a certificate authority that is
 * generated for the run.
 */
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { run, temporaryDirectory } from '../kit/processes/command.js'

export interface Certificates {
  /** The path of the authority's certificate, for clients. */
  readonly ca: string
  readonly cert: Buffer
  readonly key: Buffer
}

/** The JSON content of the echo origin's responses. */
export interface Echo {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: number
  readonly sha256: string
}

export interface Origin {
  readonly port: number
  /** Ends without a slash. */
  readonly url: string
}

/** An authority and a certificate for 127.0.0.1 that it has issued. */
export async function makeCertificates(t: Test): Promise<Certificates> {
  const directory = await temporaryDirectory(t)
  const path = (name: string) => join(directory, name)
  const openssl = async (...args: string[]) => {
    const { code, stderr } = await run('openssl', args)
    if (code !== 0) throw new Error(stderr)
  }
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  await writeFile(path('san'), 'subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n')
  await openssl(
    'req',
    '-x509',
    ...key,
    '-subj',
    '/CN=test',
    '-keyout',
    path('ca.key'),
    '-out',
    path('ca.crt'),
  )
  await openssl('req', ...key, '-subj', '/CN=127.0.0.1', '-keyout', path('key'), '-out', path('csr'))
  const authority = ['-CA', path('ca.crt'), '-CAkey', path('ca.key'), '-CAcreateserial']
  await openssl(
    'x509',
    '-req',
    '-in',
    path('csr'),
    ...authority,
    '-extfile',
    path('san'),
    '-out',
    path('crt'),
  )
  return { ca: path('ca.crt'), cert: await readFile(path('crt')), key: await readFile(path('key')) }
}

/** Starts an origin on a free port; it echoes requests unless it gets another handler. */
export async function startOrigin(
  t: Test,
  certificates?: Certificates,
  listener: RequestListener = echo,
): Promise<Origin> {
  const server =
    certificates === undefined
      ? createServer(listener)
      : createTlsServer({ cert: certificates.cert, key: certificates.key }, listener)
  // If the connection were closed as the next request arrives, that request would be lost.
  server.keepAliveTimeout = 0
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise(resolve => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const scheme = certificates === undefined ? 'http' : 'https'
  return { port: address.port, url: `${scheme}://127.0.0.1:${address.port}` }
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Responds with the request as received; the response for a path `/bytes/N` is N bytes instead. */
const echo: RequestListener = (request, response) => {
  const size = /^\/bytes\/(\d+)$/.exec(request.url ?? '')?.[1]
  if (size !== undefined) {
    response.end(Buffer.alloc(Number(size), 'sluice '))
    return
  }
  void buffer(request).then(content => response.end(describe(request, content)))
}

function describe({ method, url, headers }: IncomingMessage, content: Buffer): string {
  return JSON.stringify({ method, url, headers, bytes: content.length, sha256: sha256(content) })
}
