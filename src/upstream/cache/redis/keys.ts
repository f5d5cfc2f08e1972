/**
 * The names that a store uses in Redis. All keys of one URI share a hash tag, so that they are on one server of a cluster
 * and in one transaction; the tag begins with the host, so that a host is found by the names alone.
 *
 *     sluice:{HOST.URI}:u                hash: the generation of each partition that has something of the URI
 *     sluice:{HOST.URI}:e:PARTITION      hash: the stored responses of one key, by their ids
 *     sluice:{HOST.URI}:c:ID             hash: the content of one of them in pieces, by their numbers
 *     sluice:{HOST.URI}:i:PARTITION      text: differs after each invalidation of the key; there for some minutes
 *
 * HOST, URI and PARTITION are digests: names have one length and no character that a pattern knows. What is stored says
 * itself which key it is for, so that a collision is a miss.
 */
import { createHash } from 'node:crypto'
import type { CacheKey } from '../../../cache/stored-response.js'

export const PREFIX = 'sluice:'
/** Of all names that the store uses. */
export const EVERY_NAME = `${PREFIX}{*`

/** Base64url characters: 72 bits, and 132 where it is the last word on which response is meant. */
const HOST_LENGTH = 12
const DIGEST_LENGTH = 22
const SLOTS = 16_384
const AUTHORITY = /^[^:]*:\/\/([^/?#]*)/
const PORT = /:\d*$/
const NAME = /^sluice:\{[\w-]{12}\.[\w-]{22}\}:(u|[ec]:[\w-]{22})$/

/** The names that belong to one key. */
export interface KeyNames {
  readonly uri: UriNames
  /** The field of this partition in the hash of generations. */
  readonly partition: string
  readonly entries: string
  readonly invalidation: string
}

export interface UriNames {
  readonly tag: string
  readonly generations: string
}

export function namesOf(key: CacheKey): KeyNames {
  const uri = namesOfUri(key.uri)
  const partition = digest(key.partition, DIGEST_LENGTH)
  const invalidation = `${PREFIX}{${uri.tag}}:i:${partition}`
  return { uri, partition, entries: entriesName(uri.tag, partition), invalidation }
}

export function namesOfUri(uri: string): UriNames {
  const authority = AUTHORITY.exec(uri)?.[1] ?? ''
  const tag = `${hostDigest(authority.replace(PORT, ''))}.${digest(uri, DIGEST_LENGTH)}`
  return { tag, generations: `${PREFIX}{${tag}}:u` }
}

export function entriesName(tag: string, partition: string): string {
  return `${PREFIX}{${tag}}:e:${partition}`
}

export function contentName(tag: string, id: string): string {
  return `${PREFIX}{${tag}}:c:${id}`
}

/** A pattern for the generations of all URIs of a host. */
export function patternOfHost(host: string): string {
  return `${PREFIX}{${hostDigest(host)}.*}:u`
}

/** What a name of the store names: generations, entries or content; undefined for one that is not the store's. */
export function kindOf(name: string): 'u' | 'e' | 'c' | undefined {
  const kind = NAME.exec(name)?.[1]?.charAt(0)
  return kind === 'u' || kind === 'e' || kind === 'c' ? kind : undefined
}

/** @param name one of the store's */
export function tagOf(name: string): string {
  return name.slice(PREFIX.length + 1, name.indexOf('}'))
}

/** The slot of a cluster that keys with this hash tag are in: CRC-16/XMODEM, modulo 16384. */
export function slotOf(tag: string): number {
  let crc = 0
  for (let i = 0; i < tag.length; i++) {
    crc ^= tag.charCodeAt(i) << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021
    crc &= 0xffff
  }
  return crc % SLOTS
}

function hostDigest(host: string): string {
  return digest(host.replace(/^\[(.*)\]$/, '$1'), HOST_LENGTH)
}

function digest(text: string, length: number): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, length)
}
