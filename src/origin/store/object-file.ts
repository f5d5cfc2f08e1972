/**
 * One version of a resource in one file: its content, then what is known of it as JSON, then a footer of fixed length
 * that says how long the JSON is.
 *
 * A version is whole or not there, because it comes into being by a rename: content and fields can never disagree. The
 * content stands first, as its length and its digest are known only once all of it has come.
 */
import { createHash, type Hash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { open } from 'node:fs/promises'
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

export interface OpenObject {
  readonly file: FileHandle
  readonly metadata: ObjectMetadata
  /** Bytes of the whole file. */
  readonly size: number
}

const MAGIC = 'sluice1\n'
const FOOTER_BYTES = 16
const TAIL_BYTES = 2048

/** What stands behind the content. */
export function serializeTrailer(metadata: ObjectMetadata): Buffer {
  const json = Buffer.from(JSON.stringify(metadata), 'utf8')
  const length = json.length.toString(16).padStart(FOOTER_BYTES - MAGIC.length, '0')
  return Buffer.concat([json, Buffer.from(length + MAGIC, 'latin1')])
}

/** A digest of a representation, of its fields as well as of its content (RFC 9110 §8.8.3.3): the opaque part of its tag. */
export function startDigest(fields: RepresentationFields): Hash {
  return createHash('sha256').update(`${JSON.stringify(fields)}\n`)
}

/**
 * Opens the version that is current; it stays readable as it is, whatever is written or deleted meanwhile.
 * @returns undefined when there is none; otherwise the caller closes `file`
 */
export async function openObject(path: string): Promise<OpenObject | undefined> {
  let file: FileHandle
  try {
    file = await open(path, 'r')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
  try {
    const { size } = await file.stat()
    return { file, metadata: await readMetadata(file, size), size }
  } catch (error) {
    await file.close()
    throw error
  }
}

export function validatorsOf(metadata: ObjectMetadata): Validators {
  return { etag: { weak: false, opaque: metadata.etag }, lastModifiedMs: metadata.modifiedMs }
}

async function readMetadata(file: FileHandle, size: number): Promise<ObjectMetadata> {
  const tail = await readTail(file, size, TAIL_BYTES)
  const footer = tail.toString('latin1', tail.length - FOOTER_BYTES)
  const length = Number.parseInt(footer.slice(0, -MAGIC.length), 16)
  if (footer.length !== FOOTER_BYTES || !footer.endsWith(MAGIC) || !(length + FOOTER_BYTES <= size)) {
    throw new Error('not a file of the store')
  }
  const whole =
    length + FOOTER_BYTES <= tail.length ? tail : await readTail(file, size, length + FOOTER_BYTES)
  const json = whole.toString('utf8', whole.length - FOOTER_BYTES - length, whole.length - FOOTER_BYTES)
  const metadata = JSON.parse(json) as ObjectMetadata
  if (metadata.length + length + FOOTER_BYTES !== size) throw new Error('a file of the store is torn')
  return metadata
}

async function readTail(file: FileHandle, size: number, bytes: number): Promise<Buffer> {
  const length = Math.min(size, bytes)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length)
  return buffer.subarray(0, bytesRead)
}
