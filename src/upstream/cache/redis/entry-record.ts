/**
 * A stored response as it lies in Redis: a record with its head, and its content in pieces, or behind the head where it is
 * short. Whatever is no such record of the same version, for the same key and with its checksum, is nothing.
 *
 *     record: "SL" version(1) crc32(4) length of the JSON(4) JSON content
 *     piece:  crc32(4) content
 */
import { crc32 } from 'node:zlib'
import { StoredResponse } from '../../../cache/freshness.js'
import type { CacheKey, StoredHead } from '../../../cache/stored-response.js'
import type { CacheEntry } from '../store.js'
import type { Reply } from './link.js'

/** Bytes of content in each piece but the last. */
export const PIECE_BYTES = 64 * 1024
/** Content up to this length lies in the record: one question answers for both. */
export const INLINE_BYTES = 4 * 1024
/** Bytes before the content of a piece. */
export const PIECE_HEAD_BYTES = 4

const MAGIC = Buffer.from('SL\x01', 'latin1')
const HEAD_BYTES = MAGIC.length + 8

export interface RedisEntryParts {
  readonly key: CacheKey
  readonly response: StoredResponse
  readonly length: number
  readonly id: string
  /** It is there as long as its partition has this generation. */
  readonly generation: string
  readonly pieceBytes: number
  /** Milliseconds since the epoch from which on it is not there. */
  readonly expires: number
  /** All of the content, where it lies in the record. */
  readonly inline: Buffer | undefined
}

export class RedisEntry implements CacheEntry, RedisEntryParts {
  readonly key: CacheKey
  readonly response: StoredResponse
  readonly length: number
  readonly id: string
  readonly generation: string
  readonly pieceBytes: number
  readonly expires: number
  readonly inline: Buffer | undefined

  constructor(parts: RedisEntryParts) {
    this.key = parts.key
    this.response = parts.response
    this.length = parts.length
    this.id = parts.id
    this.generation = parts.generation
    this.pieceBytes = parts.pieceBytes
    this.expires = parts.expires
    this.inline = parts.inline
  }

  /** How many pieces its content is in. */
  get pieces(): number {
    return this.inline === undefined ? Math.ceil(this.length / this.pieceBytes) : 0
  }
}

export function serializeRecord(entry: RedisEntryParts): Buffer {
  const { key, length, generation, pieceBytes, expires, response } = entry
  const { partition, uri } = key
  const { head } = response
  const json = Buffer.from(JSON.stringify({ partition, uri, length, generation, pieceBytes, expires, head }))
  const record = Buffer.concat([Buffer.alloc(HEAD_BYTES), json, entry.inline ?? Buffer.alloc(0)])
  MAGIC.copy(record)
  record.writeUInt32BE(json.length, MAGIC.length + 4)
  record.writeUInt32BE(crc32(record.subarray(MAGIC.length + 4)), MAGIC.length)
  return record
}

/**
 * Those that are to be found.
 * @param generation the one that their partition has, if any
 * @param reply records by their ids, as HGETALL answers
 * @param now milliseconds since the epoch
 */
export function parseRecords(
  key: CacheKey,
  generation: string | undefined,
  reply: Reply,
  now: number,
): RedisEntry[] {
  const found: RedisEntry[] = []
  for (const [id, record] of recordsOf(reply)) {
    const entry = parseRecord(key, id, record)
    if (entry !== undefined && entry.generation === generation && entry.expires > now) found.push(entry)
  }
  return found
}

/** field, value, ... in pairs. */
export function recordsOf(reply: Reply): (readonly [id: string, record: Reply])[] {
  if (!Array.isArray(reply)) return []
  const records: [string, Reply][] = []
  for (let i = 0; i + 1 < reply.length; i += 2) records.push([String(reply[i]), reply[i + 1] as Reply])
  return records
}

/** @returns undefined for what is damaged, foreign, or of another key */
export function parseRecord(key: CacheKey, id: string, record: unknown): RedisEntry | undefined {
  if (!Buffer.isBuffer(record) || record.length < HEAD_BYTES) return undefined
  if (!record.subarray(0, MAGIC.length).equals(MAGIC)) return undefined
  if (record.readUInt32BE(MAGIC.length) !== crc32(record.subarray(MAGIC.length + 4))) return undefined
  const end = HEAD_BYTES + record.readUInt32BE(MAGIC.length + 4)
  let value: unknown
  try {
    value = JSON.parse(record.toString('utf8', HEAD_BYTES, end))
  } catch {
    return undefined
  }
  if (!isRecord(value) || value['partition'] !== key.partition || value['uri'] !== key.uri) return undefined
  const { length, generation, pieceBytes, expires, head } = value
  if (!isLength(length) || !isLength(pieceBytes) || pieceBytes === 0) return undefined
  if (typeof generation !== 'string' || typeof expires !== 'number' || !isStoredHead(head)) return undefined
  const inline = length <= INLINE_BYTES ? record.subarray(end) : undefined
  if ((inline?.length ?? 0) !== (inline === undefined ? 0 : length)) return undefined
  if (inline === undefined && end !== record.length) return undefined
  const response = new StoredResponse(head)
  return new RedisEntry({ key, response, length, id, generation, pieceBytes, expires, inline })
}

/**
 * Room for a piece, to be filled from PIECE_HEAD_BYTES on.
 * @param bytes of content
 */
export function newPiece(bytes: number): Buffer {
  return Buffer.allocUnsafeSlow(PIECE_HEAD_BYTES + bytes)
}

/** Writes the checksum of a piece before its content. */
export function sealPiece(piece: Buffer): void {
  piece.writeUInt32BE(crc32(piece.subarray(PIECE_HEAD_BYTES)), 0)
}

/**
 * The content of a piece.
 * @param bytes how many it must have
 * @returns undefined when it is missing or damaged
 */
export function openPiece(piece: unknown, bytes: number): Buffer | undefined {
  if (!Buffer.isBuffer(piece) || piece.length !== PIECE_HEAD_BYTES + bytes) return undefined
  const content = piece.subarray(PIECE_HEAD_BYTES)
  return piece.readUInt32BE(0) === crc32(content) ? content : undefined
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isLength(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isStoredHead(value: unknown): value is StoredHead {
  if (!isRecord(value)) return false
  const { method, status, reason, minor, fields, selecting, requestedAt, respondedAt } = value
  const { range, completeLength } = value
  return (
    typeof method === 'string' &&
    Number.isInteger(status) &&
    typeof reason === 'string' &&
    (minor === 0 || minor === 1) &&
    Array.isArray(fields) &&
    fields.length % 2 === 0 &&
    fields.every(each => typeof each === 'string') &&
    Array.isArray(selecting) &&
    selecting.every(each => each === null || typeof each === 'string') &&
    Number.isFinite(requestedAt) &&
    Number.isFinite(respondedAt) &&
    (range === undefined || (isRecord(range) && isLength(range['first']) && isLength(range['last']))) &&
    (completeLength === undefined || isLength(completeLength))
  )
}
