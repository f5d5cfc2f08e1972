/** PUT, and POST to a collection: stores the content as a representation (RFC 9110 §9.3.3, §9.3.4). */
import { ProxyError } from '../../errors.js'
import { hasField } from '../../http/fields.js'
import type { Outcome } from '../../outcome.js'
import {
  type AnswerContext,
  answerEmpty,
  checkPreconditions,
  tooLargeObject,
  validatorFields,
} from './answers.js'
import { indexBytes } from './collection-index.js'
import { readContent } from './content.js'
import { NewVersion } from './new-version.js'
import { type ObjectMetadata, trailerBytes, validatorsOf } from './object-file.js'
import type { Objects } from './objects.js'
import { RESOLUTION_MS } from './recency.js'
import { parseRepresentationFields, type RepresentationFields } from './representation-fields.js'
import type { TemporaryFiles } from './temporary-files.js'
import { fileBytes, type Reservation, type Usage } from './usage.js'

/** The preconditions that depend on whether the target exists, even if it has no validators. */
const EXISTENCE = ['if-match', 'if-none-match']

/** What a write needs from the store. */
export interface WriteContext extends AnswerContext {
  readonly objects: Objects
  readonly temporary: TemporaryFiles
  readonly usage: Usage
  readonly maxObjectBytes: number
}

/**
 * Handles PUT. All checks that do not need the content are made first, so that a client that expects 100 sends its content
 * only if it can be stored.
 * @param path the path of a resource
 * @throws ProxyError 400, 412, 413, 507; ClientGone
 */
export async function putResource(context: WriteContext, path: string): Promise<Outcome> {
  const { exchange, objects } = context
  if (hasField(exchange.head.fields.list, 'content-range')) {
    throw new ProxyError('http_request_error', 'PUT with Content-Range', {
      status: 400,
      reason: 'content_range',
      detail: 'PUT replaces the whole resource; use PATCH to change a part of it (RFC 9110 §14.4).',
    })
  }
  const fields = parseRepresentationFields(exchange.head.fields.list)
  const before = await objects.metadataIfWhole(path)
  checkPreconditions(context, before && validatorsOf(before))
  return await storeContent(context, path, fields, async (version, metadata, room) => {
    const done = await objects.replace(
      path,
      async (current, freedBytes) => {
        checkPreconditions(context, current && validatorsOf(current.metadata))
        await room.replaces(freedBytes)
        return version
      },
      room,
      exchange.signal,
    )
    const validating = validatorFields(context, validatorsOf(metadata))
    if (done === 'replaced') return answerEmpty(context, 204, validating)
    return answerEmpty(context, 201, ['Location', path, ...validating])
  })
}

/**
 * Handles POST: creates a resource in the collection, under a generated name.
 * @param created the path of the new resource, which must be unused
 * @param exists whether the collection is not empty; called only if a precondition depends on it, as it may take long
 * @throws ProxyError 400, 412, 413, 507; ClientGone
 */
export async function postToCollection(
  context: WriteContext,
  created: string,
  exists: () => Promise<boolean>,
): Promise<Outcome> {
  const received = context.exchange.head.fields.list
  const fields = parseRepresentationFields(received)
  if (EXISTENCE.some(name => hasField(received, name))) {
    checkPreconditions(context, (await exists()) ? { etag: undefined, lastModifiedMs: undefined } : undefined)
  }
  return await storeContent(context, created, fields, async (version, metadata, room) => {
    await context.objects.replace(
      created,
      async current => {
        if (current !== undefined) throw new Error('a generated name is already in use')
        return version
      },
      room,
      context.exchange.signal,
    )
    const validating = validatorFields(context, validatorsOf(metadata))
    return answerEmpty(context, 201, ['Location', created, ...validating])
  })
}

/** Writes the content to a new version, and passes that to `publish`, which makes it the current one. */
async function storeContent(
  context: WriteContext,
  path: string,
  fields: RepresentationFields,
  publish: (version: NewVersion, metadata: ObjectMetadata, room: Reservation) => Promise<Outcome>,
): Promise<Outcome> {
  const { exchange, objects, temporary, usage, maxObjectBytes, now } = context
  const ensureSize = (bytes: number): void => {
    if (bytes > maxObjectBytes) throw tooLargeObject(maxObjectBytes)
  }
  const declared = exchange.content.length ?? 0
  ensureSize(declared)
  const replaced = await objects.countedBytes(path)
  const room = usage.reserve(replaced, indexBytes(path))
  const trailer = trailerBytes({ path, fields, modifiedMs: now(), length: declared })
  let version: NewVersion | undefined
  let protectedMs = Number.NEGATIVE_INFINITY
  const protectReplaced = async (): Promise<void> => {
    if (replaced === 0 || now() - protectedMs < RESOLUTION_MS) return
    protectedMs = now()
    await objects.protect(path)
  }
  try {
    await protectReplaced()
    await room.atLeast(fileBytes(declared + trailer))
    const made = new NewVersion(await temporary.create(), fields)
    version = made
    await readContent(exchange, async chunks => {
      const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, made.length)
      ensureSize(bytes)
      await protectReplaced()
      await room.atLeast(fileBytes(bytes + trailer))
      await made.append(chunks)
    })
    const metadata = await made.seal(path, now())
    await room.atLeast(fileBytes(made.size))
    return await publish(made, metadata, room)
  } finally {
    await version?.discard()
    room.release()
  }
}
