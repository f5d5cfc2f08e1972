/**
 * The files that a configuration names, which are read with it: lists of hosts, passwords of clients, certificates and keys
 * of the TLS listener, authorities of upstreams, credentials for a parent proxy, for Redis and for the collector of spans. A
 * file that is missing or invalid is a problem of the key that names it, reported with all others, and so is an unusable
 * directory of a store.
 */
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { type BasicCredentials, serializeBasic } from '../http/basic-credentials.js'
import { readCertificates, readTlsFiles, type TlsFiles } from '../tls/tls-files.js'
import type { FileReader, FileText } from './file-reader.js'
import {
  type HostList,
  NO_USER_PASSWORD,
  onlyLine,
  parseHeaderLines,
  parseHostLines,
  parseHtpasswd,
  parseUserPassword,
  UNREADABLE,
} from './line-files.js'
import { nearest } from './nearest.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import { NOT_UTF8 } from './yaml-file.js'
import type { Fault } from './yaml-tree.js'

/** The files of `parent`. */
export interface ParentFiles {
  /** The value of Proxy-Authorization. */
  readonly authorization?: string
  /** Authorities in PEM. */
  readonly ca?: string
}

/** The files of `cache` with `store: redis`. */
export interface CacheFiles {
  readonly password?: string
  /** Authorities in PEM. */
  readonly ca?: string
}

export interface ConfigFiles {
  /** The lists that `hosts_file` names, by the path as the configuration has it. */
  readonly hosts: ReadonlyMap<string, HostList>
  /** Names and bcrypt hashes, by the path as the configuration has it. */
  readonly htpasswd: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** Authorities of upstreams in PEM, by the path as the configuration has it. */
  readonly upstreamCa: ReadonlyMap<string, string>
  /** Absent when there is no TLS listener. */
  readonly tls?: TlsFiles
  /** Absent when there is no parent proxy. */
  readonly parent?: ParentFiles
  /** Absent unless the cache is in Redis. */
  readonly cache?: CacheFiles
  /** Fields for the collector of spans; empty when no file is named. */
  readonly tracingHeaders: Readonly<Record<string, string>>
}

/** The files of a configuration that names none. */
export const NO_FILES: ConfigFiles = {
  hosts: new Map(),
  htpasswd: new Map(),
  upstreamCa: new Map(),
  tracingHeaders: {},
}

export interface ReadFiles {
  readonly files: ConfigFiles
  /** SHA-256 of each list of hosts, in hex. */
  readonly listDigests: readonly string[]
  readonly faults: readonly Fault[]
  readonly warnings: readonly Fault[]
}

/**
 * @param reader for the files of the configuration
 * @param nowMs the time at which certificates have to be valid, in milliseconds since the epoch
 */
export function readConfigFiles(config: Config, reader: FileReader, nowMs: number): ReadFiles {
  const listDigests: string[] = []
  const hosts = readHosts(config, reader, digest => listDigests.push(digest))
  const htpasswd = readHtpasswd(config, reader)
  const { tls: keys } = config.listen
  const tls = keys === undefined ? undefined : readTlsFiles(keys, reader, nowMs)
  const upstreamCa = readUpstreamCa(config, reader, nowMs)
  const parent = config.parent === undefined ? undefined : readParentFiles(config.parent, reader, nowMs)
  const tracingHeaders = readTracingHeaders(config, reader)
  const cache = config.cache?.store === 'redis' ? readCacheFiles(config.cache, reader, nowMs) : undefined
  checkDirectories(config, reader)
  const files = {
    hosts,
    htpasswd,
    upstreamCa,
    tracingHeaders,
    ...(tls === undefined ? {} : { tls }),
    ...(parent === undefined ? {} : { parent }),
    ...(cache === undefined ? {} : { cache }),
  }
  return { files, listDigests, faults: reader.faults, warnings: reader.warnings }
}

/** Reads each file once, even if several keys name it. */
function readHosts(
  { rules, deny }: Config,
  reader: FileReader,
  digested: (digest: string) => void,
): ConfigFiles['hosts'] {
  const hosts = new Map<string, HostList>()
  const read = (path: Path, names: readonly string[]): void => {
    for (const [position, name] of names.entries()) {
      if (hosts.has(name)) continue
      const at = reader.has([...path, position]) ? [...path, position] : path
      const file = reader.read(at, name)
      if (file === undefined) continue
      const line = firstLineNotUtf8(file.bytes)
      if (line !== undefined) {
        reader.lineFaults(at, name, [{ line, message: NOT_UTF8 }])
        continue
      }
      const { list, faults } = parseHostLines(file.text, name)
      reader.lineFaults(at, name, faults)
      hosts.set(name, list)
      digested(createHash('sha256').update(file.bytes).digest('hex'))
    }
  }
  for (const [rule, { hostsFiles }] of rules) read(['rules', rule, 'hosts_file'], hostsFiles)
  read(['deny', 'hosts_file'], deny.hostsFiles)
  return hosts
}

/** @returns the number of the first line that is not UTF-8, from 1; undefined if all are */
function firstLineNotUtf8(bytes: Uint8Array): number | undefined {
  if (isUtf8(bytes)) return undefined
  const [before = ''] = new TextDecoder('utf-8').decode(bytes).split('\ufffd', 1)
  return before.split('\n').length
}

function readHtpasswd(config: Config, reader: FileReader): ConfigFiles['htpasswd'] {
  const htpasswd = new Map<string, ReadonlyMap<string, string>>()
  const places = [
    { at: ['listen', 'admin'], basic: config.listen.adminAccess.basic, expected: undefined },
    ...config.clients.map(({ basic, users: expected }, index) => ({
      at: ['clients', index],
      basic,
      expected,
    })),
  ]
  for (const { at, basic, expected } of places) {
    if (basic === undefined) continue
    const path = [...at, 'basic', 'htpasswd_file']
    const file = reader.read(path, basic.htpasswdFile)
    if (file === undefined) continue
    const { users, faults } = parseHtpasswd(file.text)
    reader.lineFaults(path, basic.htpasswdFile, faults)
    htpasswd.set(basic.htpasswdFile, users)
    for (const [position, name] of (expected ?? []).entries()) {
      if (users.has(name)) continue
      const near = nearest(name, [...users.keys()])
      const hint = near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`
      reader.warn(
        [...at, 'users', position],
        `${basic.htpasswdFile} does not hold the name ${JSON.stringify(name)}${hint}`,
      )
    }
  }
  return htpasswd
}

function readUpstreamCa(config: Config, reader: FileReader, nowMs: number): ConfigFiles['upstreamCa'] {
  const authorities = new Map<string, string>()
  for (const [index, origin] of config.origins.entries()) {
    if (origin.kind !== 'forward' || origin.ca === undefined) continue
    const certificates = readCertificates(origin.ca, ['origins', index, 'ca'], reader, nowMs)
    if (certificates !== undefined) authorities.set(origin.ca, certificates.text)
  }
  return authorities
}

function checkDirectories(config: Config, reader: FileReader): void {
  for (const [index, origin] of config.origins.entries()) {
    if (origin.kind !== 'store') continue
    reader.checkDirectory(['origins', index, 'store', 'directory'], origin.store.directory)
  }
  if (config.cache?.store === 'disk')
    reader.checkCacheDirectory(['cache', 'directory'], config.cache.directory)
}

function readTracingHeaders({ tracing }: Config, reader: FileReader): ConfigFiles['tracingHeaders'] {
  const name = tracing?.headersFile
  const path = ['tracing', 'headers_file']
  const file = name === undefined ? undefined : reader.read(path, name)
  if (file === undefined) return {}
  const { headers, faults } = parseHeaderLines(file.text)
  reader.lineFaults(path, name ?? '', faults)
  warnIfPublic(file, path, name ?? '', reader)
  return headers
}

/** @param nowMs the time at which certificates have to be valid, in milliseconds since the epoch */
function readParentFiles(
  { basicFile, ca }: NonNullable<Config['parent']>,
  reader: FileReader,
  nowMs: number,
): ParentFiles {
  const credentials = readSecret(USER_PASSWORD, ['parent', 'basic_file'], basicFile, reader)
  const certificates = ca === undefined ? undefined : readCertificates(ca, ['parent', 'ca'], reader, nowMs)
  return {
    ...(credentials === undefined ? {} : { authorization: serializeBasic(credentials) }),
    ...(certificates === undefined ? {} : { ca: certificates.text }),
  }
}

/** @param nowMs the time at which certificates have to be valid, in milliseconds since the epoch */
function readCacheFiles(
  { passwordFile, ca }: Extract<NonNullable<Config['cache']>, { store: 'redis' }>,
  reader: FileReader,
  nowMs: number,
): CacheFiles {
  const password = readSecret(PASSWORD, ['cache', 'password_file'], passwordFile, reader)
  const certificates = ca === undefined ? undefined : readCertificates(ca, ['cache', 'ca'], reader, nowMs)
  return {
    ...(password === undefined ? {} : { password }),
    ...(certificates === undefined ? {} : { ca: certificates.text }),
  }
}

/** A file with a secret in one line, of which no message repeats anything. */
interface SecretFile<Secret> {
  /** @returns undefined if the text is anything else */
  readonly parse: (text: string) => Secret | undefined
  /** The clause of the message about a file that cannot be parsed. */
  readonly otherwise: string
}

const USER_PASSWORD: SecretFile<BasicCredentials> = { parse: parseUserPassword, otherwise: NO_USER_PASSWORD }
const PASSWORD: SecretFile<string> = {
  parse: text => {
    const line = onlyLine(text)
    return line === '' || UNREADABLE.test(line) ? undefined : line
  },
  otherwise: 'is not one line with a password in UTF-8',
}

/** @returns undefined if the file is not named, or if it cannot be used, which is then a fault */
function readSecret<Secret>(
  { parse, otherwise }: SecretFile<Secret>,
  path: Path,
  name: string | undefined,
  reader: FileReader,
): Secret | undefined {
  const file = name === undefined ? undefined : reader.read(path, name)
  if (name === undefined || file === undefined) return undefined
  const secret = parse(file.text)
  if (secret === undefined) reader.fault(path, `${name} ${otherwise}`)
  else warnIfPublic(file, path, name, reader)
  return secret
}

function warnIfPublic({ isPublic }: FileText, path: Path, name: string, reader: FileReader): void {
  if (isPublic) reader.warn(path, `every user of this machine can read ${name}; run \`chmod o= ${name}\``)
}
