/**
 * For tests of package caching: an origin that serves files like a mirror and records requests, and Sluice with the
 * configuration of config/examples/packages.yaml, changed to loopback.
 */
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { type Owner, run } from '../kit/processes/command.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'
import { type Certificates, type Origin, sha256, startOrigin } from './origin.js'
import { ROOT, runSluice, type Sluice, startSluice } from './program.js'

/** The default Last-Modified: long ago, so that the heuristic lifetime is a day. */
const LONG_AGO = new Date('2020-01-01T00:00:00Z')

interface Published {
  readonly content: Buffer
  readonly type: string
  readonly modified: Date
}

/** Files by their path, with validators and without any Cache-Control. */
export class Mirror {
  readonly #files = new Map<string, Published>()
  #asked: string[] = []

  publish(
    path: string,
    content: Buffer | string,
    type = 'application/octet-stream',
    modified = LONG_AGO,
  ): void {
    this.#files.set(path, { content: Buffer.from(content), type, modified })
  }

  remove(path: string): void {
    this.#files.delete(path)
  }

  /** The requests since the last call, sorted: `200 /path`. */
  taken(): string[] {
    const asked = this.#asked.sort()
    this.#asked = []
    return asked
  }

  readonly listener = (request: IncomingMessage, response: ServerResponse): void => {
    const path = request.url ?? ''
    const file = this.#files.get(path)
    if (file === undefined) response.writeHead(404)
    else {
      const etag = `"${sha256(file.content).slice(0, 16)}"`
      const validators = { ETag: etag, 'Last-Modified': file.modified.toUTCString() }
      if (request.headers['if-none-match'] === etag) response.writeHead(304, validators)
      else {
        const described = { 'Content-Type': file.type, 'Content-Length': file.content.length }
        response.writeHead(200, { ...validators, ...described, Vary: 'Accept, Accept-Encoding' })
      }
    }
    this.#asked.push(`${response.statusCode} ${path}`)
    response.end(response.statusCode === 200 && request.method === 'GET' ? file?.content : undefined)
  }
}

export interface StartedMirror extends Origin {
  readonly files: Mirror
}

/** Starts the origin, with TLS if there are certificates. */
export async function startMirror(t: Test, certificates?: Certificates): Promise<StartedMirror> {
  const files = new Mirror()
  return { ...(await startOrigin(t, certificates, files.listener)), files }
}

interface Example {
  listen: { proxy: string[]; admin?: string }
  clients: [{ cidr: string[] }]
  rules: { debian: { hosts: string[]; ports: number[]; addresses?: string[] } }
  origins: { host: string; path: string; forward: string; ca?: string }[]
  cache: { directory?: string; rules: { hosts: string[] }[] }
}

export interface PackageCacheOptions {
  /** The directory for `store: disk`; without it the store is in memory, which does not depend on the speed of a disk. */
  readonly directory?: string
  /** The URL of the repository for apt. */
  readonly repositoryPort?: number
  /** The upstream of the entry of `origins` for a host and path, which clients request at Sluice's own address. */
  readonly origins?: Readonly<Record<string, { readonly forward: string; readonly ca: string }>>
}

/** The example, with only names, addresses and the store changed. */
export async function startPackageCache(
  t: Owner,
  { directory, repositoryPort = 80, origins = {} }: PackageCacheOptions,
): Promise<Sluice> {
  const example = parse(await readFile(join(ROOT, 'config/examples/packages.yaml'), 'utf8')) as Example
  example.listen = { proxy: ['127.0.0.1:0'], admin: '127.0.0.1:0' }
  example.clients[0].cidr = ['127.0.0.0/8']
  const { debian } = example.rules
  Object.assign(debian, { hosts: ['127.0.0.1'], ports: [repositoryPort], addresses: ['127.0.0.1/32'] })
  for (const [name, upstream] of Object.entries(origins)) {
    const entry = example.origins.find(({ host, path }) => host + path === name)
    if (entry === undefined) throw new Error(`the example has no ${name}`)
    for (const rule of example.cache.rules) {
      rule.hosts = rule.hosts.map(host => (host === entry.host ? '127.0.0.1' : host))
    }
    Object.assign(entry, upstream, { host: '127.0.0.1' })
  }
  const { directory: _, ...cache } = example.cache
  const kept = directory === undefined ? { ...cache, store: 'memory' } : { ...cache, directory }
  return startSluice(t, stringify({ ...example, cache: kept }))
}

/** Waits until that many responses are stored, which happens shortly after a client has received one. */
export async function stored({ adminUrl }: Sluice, entries: number): Promise<void> {
  let seen: unknown
  const look = async () => {
    const response = await fetch(`${adminUrl}/cache/stats`)
    seen = await response.json()
    return (seen as { entries: number }).entries === entries
  }
  await until(`${entries} responses that are stored`, look, { everyMs: OTHER_PROCESS_MS, seen: () => seen })
}

/** `sluice cache purge` of a URL as clients request it. @returns its output */
export async function purge({ adminUrl }: Sluice, url: string): Promise<string> {
  const args = ['cache', 'purge', url, '--admin', new URL(adminUrl).host]
  const { code, stdout, stderr } = await runSluice(args)
  if (code !== 0) throw new Error(stderr)
  return stdout.trim()
}

/** Runs a program, which must succeed. @returns its output */
export async function succeed(...[file, args, options]: Parameters<typeof run>): Promise<string> {
  const { code, stdout, stderr } = await run(file, args, options)
  if (code !== 0) throw new Error(`${file} ${args.join(' ')}: exit code ${code}\n${stdout}${stderr}`)
  return stdout
}
