/**
 * The file format of a version of a resource: its content, then its metadata as JSON, then a footer of fixed length with
 * the length of the JSON.
 *
 * A version is created by a rename, so it is always complete, and content and metadata always match. The content comes
 * first, as its length and its digest are not known until all of it has been received.
 */
import { createHash, type Hash } from 'node:crypto'
import { close, closeSync, fstat, fstatSync, open, read } from 'node:fs'
import { promisify } from 'node:util'
import { errorCode, ProxyError } from '../../errors.js'
import { type Descriptors, noDescriptor } from '../../limits/descriptors.js'
import type { Validators } from '../../http/conditional.js'
import { isMissing } from './failures.js'
import type { RepresentationFields } from './representation-fields.js'

export interface ObjectMetadata {
  /** The path in the normal form of StorePath. */
  readonly path: string
  /** Content-Type, Content-Encoding and Content-Language as received from the client. */
  readonly fields: RepresentationFields
  /** The opaque part of a strong entity tag. */
  readonly etag: string
  /** Milliseconds since the epoch. */
  readonly modifiedMs: number
  /** Bytes of content. */
  readonly length: number
}

/** A version that is open for reading. */
export interface OpenObject {
  readonly metadata: ObjectMetadata
  /** Bytes of the whole file. */
  readonly size: number
  /** When the file was last modified, in milliseconds since the epoch; undefined if it was not requested. */
  readonly fileModifiedMs: number | undefined
  /** The content, if it is short enough to have been read together with the metadata. */
  readonly content: Buffer | undefined
  /**
   * Reads content.
   * @param at an offset in the content
   * @returns at most this many bytes; empty at the end
   */
  read(at: number, bytes: number): Promise<Buffer>
  /** Must be called exactly once. */
  close(): Promise<void>
}

const MAGIC = 'sluice1\n'
const FOOTER_BYTES = 16
/** The length of a SHA-256 digest in base64url. */
const ETAG_CHARACTERS = 43
const TAIL_BYTES = 2048
/** A shorter file is read with a single call, and closed before the response is sent. */
const SHORT_BYTES = 16 * 1024

/** The file is not a complete version: it was changed by something other than the store, or the disk is faulty. */
export class DamagedObject extends ProxyError {
  constructor(cause: unknown) {
    super('proxy_internal_error', 'a file of the store is damaged', {
      reason: 'store_damaged',
      detail: 'The file that holds this resource is damaged; PUT replaces it, and DELETE removes it.',
      cause,
    })
  }
}

const openFile = promisify(open)
const statFile = promisify(fstat)
const closeFile = promisify(close)

/** Serializes what follows the content: metadata and footer. */
export function serializeTrailer(metadata: ObjectMetadata): Buffer {
  const json = Buffer.from(JSON.stringify(metadata), 'utf8')
  const length = json.length.toString(16).padStart(FOOTER_BYTES - MAGIC.length, '0')
  return Buffer.concat([json, Buffer.from(length + MAGIC, 'latin1')])
}

/** The length of the trailer, before the digest is known. */
export function trailerBytes(metadata: Omit<ObjectMetadata, 'etag'>): number {
  return serializeTrailer({ ...metadata, etag: '-'.repeat(ETAG_CHARACTERS) }).length
}

/** Starts the digest that becomes the opaque part of the entity tag. It covers fields and content (RFC 9110 §8.8.3.3). */
export function startDigest(fields: RepresentationFields): Hash {
  return createHash('sha256').update(`${JSON.stringify(fields)}\n`)
}

/**
 * Opens the current version, which stays readable even if it is replaced or deleted meanwhile.
 * @param withTime whether `fileModifiedMs` is requested
 * @returns undefined if there is none; otherwise the caller closes it
 * @throws DamagedObject, or the system's error; EMFILE also if the file would take one of the reserved descriptors
 */
export async function openObject(
  path: string,
  descriptors: Descriptors,
  withTime = false,
): Promise<OpenObject | undefined> {
  let file: number
  try {
    file = await openFile(path, 'r')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
  if (descriptors.isKept(file)) {
    closeSync(file)
    throw noDescriptor()
  }
  let object: OpenObject
  try {
    // An asynchronous call costs more than the work it does here, so a short file takes only one of them.
    const start = await readFile(file, 0, SHORT_BYTES)
    const isWhole = start.length < SHORT_BYTES && hasFooter(start)
    // For an open file fstat takes a microsecond; the asynchronous call would take ten.
    object = isWhole
      ? shortObject(start, withTime ? fstatSync(file).mtimeMs : undefined)
      : await longObject(file)
  } catch (error) {
    await closeFile(file)
    throw isOfSystem(error) ? error : new DamagedObject(error)
  }
  if (object.content !== undefined) closeSync(file)
  return object
}

/** @param whole the bytes of the whole file */
function shortObject(whole: Buffer, fileModifiedMs: number | undefined): OpenObject {
  const metadata = parseMetadata(whole, trailerLength(whole, whole.length), whole.length)
  const content = whole.subarray(0, metadata.length)
  return {
    metadata,
    size: whole.length,
    fileModifiedMs,
    content,
    read: async (at, bytes) => content.subarray(at, at + bytes),
    close: async () => {},
  }
}

async function longObject(file: number): Promise<OpenObject> {
  const { size, mtimeMs: fileModifiedMs } = await statFile(file)
  const readTail = (bytes: number): Promise<Buffer> => readFile(file, Math.max(0, size - bytes), bytes)
  const tail = await readTail(TAIL_BYTES)
  const length = trailerLength(tail, size)
  const metadata = parseMetadata(length <= tail.length ? tail : await readTail(length), length, size)
  return {
    metadata,
    size,
    fileModifiedMs,
    content: undefined,
    read: (at, bytes) => readFile(file, at, Math.max(0, Math.min(bytes, metadata.length - at))),
    close: () => closeFile(file),
  }
}

export function validatorsOf(metadata: ObjectMetadata): Validators {
  return { etag: { weak: false, opaque: metadata.etag }, lastModifiedMs: metadata.modifiedMs }
}

function hasFooter(tail: Buffer): boolean {
  return tail.length >= FOOTER_BYTES && tail.toString('latin1', tail.length - MAGIC.length) === MAGIC
}

/** Whether reading failed, so that the file may be intact. A folder in its place (EISDIR) certainly is no version. */
function isOfSystem(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && errorCode(error) !== 'EISDIR'
}

/** Bytes of JSON and footer. @throws Error if the file does not end with a footer */
function trailerLength(tail: Buffer, size: number): number {
  const digits = tail.toString('latin1', tail.length - FOOTER_BYTES, tail.length - MAGIC.length)
  const length = Number.parseInt(digits, 16) + FOOTER_BYTES
  if (!hasFooter(tail) || !(length <= size)) throw new Error('not a file of the store')
  return length
}

/** @param tail the end of the file, at least `length` bytes of it */
function parseMetadata(tail: Buffer, length: number, size: number): ObjectMetadata {
  const metadata = JSON.parse(
    tail.toString('utf8', tail.length - length, tail.length - FOOTER_BYTES),
  ) as ObjectMetadata
  if (metadata.length + length !== size) throw new Error('a file of the store is incomplete')
  if (typeof metadata.etag !== 'string' || typeof metadata.fields !== 'object') throw new Error('no metadata')
  return metadata
}

/** Reads bytes from an offset; fewer at the end. The buffer is always a new one, as a socket may hold it for a while. */
function readFile(file: number, at: number, bytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    read(file, Buffer.allocUnsafe(bytes), 0, bytes, at, (error, bytesRead, buffer) => {
      if (error === null) resolve(buffer.subarray(0, bytesRead))
      else reject(error)
    })
  })
}
