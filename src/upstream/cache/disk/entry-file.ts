/**
 * The file that makes an entry: a line of fixed length with the format's version, the checksum and the length of what
 * follows; then what is known of the response as JSON; then its content, where that is short.
 *
 * Content that is longer is in a file of its own, so that a new head (RFC 9111 §4.3.4) does not write it anew. Either way
 * there is a CRC-32 of each of its pieces, so that no byte leaves that was not checked, and the key is there in full: a
 * file that was moved, or one whose names collide, is noticed.
 */
import { crc32 } from 'node:zlib'
import { StoredResponse } from '../../../cache/freshness.js'
import type { CacheKey, StoredHead } from '../../../cache/stored-response.js'
import type { CacheEntry } from '../store.js'

/** What is checked at once. */
export const PIECE_BYTES = 64 * 1024
/** Content up to this is in one file with its head: a look-up reads it along, and nothing is opened for it again. */
export const INLINE_BYTES = 16 * 1024
/** Without the content; there is a number for each 64 KiB of it. */
export const MAX_HEAD_BYTES = 4 * 1024 * 1024

const MAGIC = 'sluice-cache-1'
const START = /^sluice-cache-1 ([0-9a-f]{8}) ([0-9a-f]{8})\n$/
const START_BYTES = `${MAGIC} 01234567 01234567\n`.length

/** What is in it is no entry, or not all of one: something other than the cache has been at its files, or the disk. */
export class DamagedEntry extends Error {
  constructor(what: string) {
    super(`a stored response was damaged and is removed: ${what}`)
  }
}

/** What an entry is made of. */
export interface EntryParts {
  readonly key: CacheKey
  readonly head: StoredHead
  /** Bytes of content. */
  readonly length: number
  /** Of each piece of the content, in order. */
  readonly crcs: readonly number[]
  /** All of it, where it is short. */
  readonly content: Buffer | undefined
}

/** What the file says of it. */
interface Description extends Omit<EntryParts, 'content'> {
  /** Whether the content follows. */
  readonly isInline: boolean
}

/** Where an entry is. */
export interface EntryPlace {
  readonly folder: string
  /** The names of its files, less what they end with. */
  readonly id: string
}

/** One entry as files hold it. */
export class DiskEntry implements CacheEntry, EntryPlace {
  readonly key: CacheKey
  readonly response: StoredResponse
  readonly length: number
  readonly folder: string
  readonly id: string
  readonly crcs: readonly number[]
  readonly content: Buffer | undefined
  /** Bytes of the file with its head. */
  readonly headBytes: number

  /** @param headBytes of the file */
  constructor({ folder, id }: EntryPlace, parts: EntryParts, headBytes: number) {
    this.folder = folder
    this.id = id
    this.key = parts.key
    this.response = new StoredResponse(parts.head)
    this.length = parts.length
    this.crcs = parts.crcs
    this.content = parts.content
    this.headBytes = headBytes
  }
}

/** @returns undefined when the head is too long to be kept */
export function serializeEntry({ key, head, length, crcs, content }: EntryParts): Buffer | undefined {
  const description: Description = { key, head, length, crcs, isInline: content !== undefined }
  const json = Buffer.from(JSON.stringify(description), 'utf8')
  if (json.length > MAX_HEAD_BYTES) return undefined
  const start = Buffer.from(`${MAGIC} ${hex(crc32(json))} ${hex(json.length)}\n`, 'latin1')
  return Buffer.concat(content === undefined ? [start, json] : [start, json, content])
}

/**
 * @param file all of it
 * @throws DamagedEntry
 */
export function parseEntry(place: EntryPlace, file: Buffer): DiskEntry {
  const start = START.exec(file.toString('latin1', 0, START_BYTES))
  if (start === null) throw new DamagedEntry('no file of this version')
  const end = START_BYTES + Number.parseInt(start[2] as string, 16)
  const json = file.subarray(START_BYTES, end)
  if (file.length < end || hex(crc32(json)) !== start[1]) throw new DamagedEntry('its head differs')
  const description = parseDescription(json)
  const content = description.isInline ? file.subarray(end) : undefined
  if (file.length - end !== (content === undefined ? 0 : description.length)) {
    throw new DamagedEntry('its length differs')
  }
  if (content !== undefined && !isWhole(content, description.crcs)) {
    throw new DamagedEntry('its content differs')
  }
  return new DiskEntry(place, { ...description, content }, file.length)
}

function parseDescription(json: Buffer): Description {
  try {
    return JSON.parse(json.toString('utf8')) as Description
  } catch {
    throw new DamagedEntry('its head is none')
  }
}

/** The checksums of content, as it comes. */
export class PieceChecksums {
  readonly #finished: number[] = []
  #current = 0
  #bytes = 0

  update(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + PIECE_BYTES - this.#bytes)
      this.#current = crc32(part, this.#current)
      this.#bytes += part.length
      at += part.length
      if (this.#bytes === PIECE_BYTES) this.#next()
    }
  }

  /** To be called once. */
  end(): readonly number[] {
    if (this.#bytes > 0) this.#next()
    return this.#finished
  }

  #next(): void {
    this.#finished.push(this.#current)
    this.#current = 0
    this.#bytes = 0
  }
}

export function isWholePiece(piece: Buffer, crc: number | undefined): boolean {
  return crc32(piece) === crc
}

function isWhole(content: Buffer, crcs: readonly number[]): boolean {
  if (crcs.length !== Math.ceil(content.length / PIECE_BYTES)) return false
  return crcs.every((crc, index) =>
    isWholePiece(content.subarray(index * PIECE_BYTES, (index + 1) * PIECE_BYTES), crc),
  )
}

function hex(number: number): string {
  return number.toString(16).padStart(8, '0')
}
