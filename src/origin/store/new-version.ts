/** A version of a resource that is being written: a temporary file, which a rename makes the current version. */
import type { Hash } from 'node:crypto'
import { type FileHandle, rename, rm } from 'node:fs/promises'
import { syncDirectory } from './directories.js'
import { type ObjectMetadata, serializeTrailer, startDigest } from './object-file.js'
import type { RepresentationFields } from './representation-fields.js'
import type { TemporaryFile } from './temporary-files.js'

export class NewVersion {
  readonly #temporary: string
  readonly #fields: RepresentationFields
  readonly #file: FileHandle
  readonly #digest: Hash
  #length = 0
  #size = 0
  #closed = false
  #published = false

  /** @param temporary an empty file in the file system of the store; it belongs to this object from now on */
  constructor({ path, file }: TemporaryFile, fields: RepresentationFields) {
    this.#temporary = path
    this.#fields = fields
    this.#file = file
    this.#digest = startDigest(fields)
  }

  /** Bytes of content so far. */
  get length(): number {
    return this.#length
  }

  /** Bytes of the whole file, once it is sealed. */
  get size(): number {
    return this.#size
  }

  async append(chunks: readonly Buffer[]): Promise<void> {
    for (const chunk of chunks) this.#digest.update(chunk)
    const [only] = chunks
    const bytes = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks)
    // Unlike `write`, this writes until everything is written.
    await this.#file.writeFile(bytes)
    this.#length += bytes.length
  }

  /**
   * Completes the file and makes it durable.
   * @param modifiedMs milliseconds since the epoch
   */
  async seal(path: string, modifiedMs: number): Promise<ObjectMetadata> {
    const metadata: ObjectMetadata = {
      path,
      fields: this.#fields,
      etag: this.#digest.digest('base64url'),
      modifiedMs,
      length: this.#length,
    }
    const trailer = serializeTrailer(metadata)
    await this.#file.writeFile(trailer)
    this.#size = this.#length + trailer.length
    await this.#file.sync()
    await this.#close()
    return metadata
  }

  /** Makes it the current version, durably. It must be sealed. */
  async publish(path: string, folder: string): Promise<void> {
    await rename(this.#temporary, path)
    this.#published = true
    await syncDirectory(folder)
  }

  /** Closes the file, and removes it unless it was published. */
  async discard(): Promise<void> {
    await this.#close()
    if (!this.#published) await rm(this.#temporary, { force: true })
  }

  async #close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#file.close()
  }
}
