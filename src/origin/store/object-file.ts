/**
 * One version of a resource in one file: its content, then what is known of it as JSON, then a footer of fixed length
 * that says how long the JSON is.
 *
 * A version is whole or not there, because it comes into being by a rename: content and fields can never disagree. The
 * content stands first, as its length and its digest are known only once all of it has come.
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
  /** The name, as StorePath has it. */
  readonly path: string
  /** Content-Type, Content-Encoding, Content-Language as the client gave them. */
  readonly fields: RepresentationFields
  /** The opaque part of a strong entity tag. */
  readonly etag: string
  /** Milliseconds since the epoch. */
  readonly modifiedMs: number
  /** Bytes of content. */
  readonly length: number
}

/** A version that can be read. */
export interface OpenObject {
  readonly metadata: ObjectMetadata
  /** Bytes of the whole file. */
  readonly size: number
  /** When the file was last modified, in milliseconds since the epoch; undefined where nobody asked for it. */
  readonly fileModifiedMs: number | undefined
  /** The content, where it is short enough to have been read with the rest. */
  readonly content: Buffer | undefined
  /**
   * Reads content.
   * @param at an offset in it
   * @returns at most so many bytes, none behind the end
   */
  read(at: number, bytes: number): Promise<Buffer>
  /** To be called once. */
  close(): Promise<void>
}

const MAGIC = 'sluice1\n'
const FOOTER_BYTES = 16
/** Of SHA-256, in base64url. */
const ETAG_CHARACTERS = 43
const TAIL_BYTES = 2048
/** A file below this is read at once, and closed before anybody is answered. */
const SHORT_BYTES = 16 * 1024

/** What is there is no version, or not all of one: something other than the store has been at its files, or the disk. */
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

/** What stands behind the content. */
export function serializeTrailer(metadata: ObjectMetadata): Buffer {
  const json = Buffer.from(JSON.stringify(metadata), 'utf8')
  const length = json.length.toString(16).padStart(FOOTER_BYTES - MAGIC.length, '0')
  return Buffer.concat([json, Buffer.from(length + MAGIC, 'latin1')])
}

/** How long that will be, before the digest is known. */
export function trailerBytes(metadata: Omit<ObjectMetadata, 'etag'>): number {
  return serializeTrailer({ ...metadata, etag: '-'.repeat(ETAG_CHARACTERS) }).length
}

/** A digest of a representation, of its fields as well as of its content (RFC 9110 §8.8.3.3): the opaque part of its tag. */
export function startDigest(fields: RepresentationFields): Hash {
  return createHash('sha256').update(`${JSON.stringify(fields)}\n`)
}

/**
 * Opens the version that is current; it stays readable as it is, whatever is written or deleted meanwhile.
 * @param withTime whether `fileModifiedMs` is asked for
 * @returns undefined when there is none; otherwise the caller closes it
 * @throws DamagedObject, and what the system throws; EMFILE when it would have one of the descriptors that are kept
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
    // Each call that waits costs more than what it does here: a short file is open for one of them.
    const start = await readFile(file, 0, SHORT_BYTES)
    const isWhole = start.length < SHORT_BYTES && hasFooter(start)
    // Of an open file the system has it at hand: a microsecond, where waiting for it costs ten.
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

/** @param whole the file */
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

/** Whether the file could not be read, so that nothing is known of it. A folder in its place is no version for sure. */
function isOfSystem(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && errorCode(error) !== 'EISDIR'
}

/** Bytes of JSON and footer. @throws Error when the end of the file is no footer */
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
  if (metadata.length + length !== size) throw new Error('a file of the store is torn')
  if (typeof metadata.etag !== 'string' || typeof metadata.fields !== 'object') throw new Error('no metadata')
  return metadata
}

/** Bytes from an offset on; fewer where the file ends. A new buffer each time, as a socket may hold on to it for long. */
function readFile(file: number, at: number, bytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    read(file, Buffer.allocUnsafe(bytes), 0, bytes, at, (error, bytesRead, buffer) => {
      if (error === null) resolve(buffer.subarray(0, bytesRead))
      else reject(error)
    })
  })
}
