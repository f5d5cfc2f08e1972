/**
 * PATCH: a resource that is JSON, changed by a patch document (RFC 5789).
 *
 * The target is read, changed in memory and written as a new version under its lock, so that either all of a patch is
 * seen or nothing, and nobody's write is lost between.
 */
import { fieldValues } from '../../http/fields.js'
import type { Outcome } from '../../outcome.js'
import {
  answerEmpty,
  checkPreconditions,
  notFound,
  tooLarge,
  tooLargeObject,
  validatorFields,
} from './answers.js'
import { readContent } from './content.js'
import { applyJsonPatch, type JsonPatchOperation, parseJsonPatch } from './json-patch.js'
import { JsonError, type JsonValue, parseJson, serializeJson } from './json-value.js'
import { applyMergePatch } from './merge-patch.js'
import { NewVersion } from './new-version.js'
import { type ObjectMetadata, type OpenObject, validatorsOf } from './object-file.js'
import { cannotApply, malformedPatch, unsupportedPatch } from './patch-errors.js'
import type { WriteContext } from './put.js'

/** Patch documents and their targets are in memory as a whole, and everybody else waits while one is applied. */
export const MAX_PATCH_BYTES = 1024 * 1024
export const MAX_PATCH_TARGET_BYTES = 1024 * 1024

type Patch =
  | { readonly kind: 'json-patch'; readonly operations: readonly JsonPatchOperation[] }
  | { readonly kind: 'merge-patch'; readonly patch: JsonValue }

/**
 * @param path of a resource
 * @throws ProxyError 400, 404, 412, 413, 415, 422, 507; ClientGone
 */
export async function patchResource(context: WriteContext, path: string): Promise<Outcome> {
  const { exchange, objects, usage } = context
  const kind = patchKind(context)
  if ((exchange.content.length ?? 0) > MAX_PATCH_BYTES) throw tooLargePatch()
  checkTarget(context, path, await objects.metadata(path))
  const patch = await readPatch(context, kind)

  const room = usage.reserve(0)
  let version: NewVersion | undefined
  let metadata: ObjectMetadata | undefined
  try {
    await objects.replace(
      path,
      async current => {
        checkTarget(context, path, current?.metadata)
        if (current === undefined) throw notFound(path)
        const content = Buffer.from(applied(await readWhole(current), patch))
        if (content.length > context.maxObjectBytes) {
          throw tooLargeObject(context.maxObjectBytes)
        }
        if (content.length > MAX_PATCH_TARGET_BYTES) {
          throw cannotApply(
            `the result would have more than ${MAX_PATCH_TARGET_BYTES} bytes, which no PATCH takes again; PUT it`,
          )
        }
        await room.replaces(current.size)
        await room.atLeast(content.length)
        version = new NewVersion(await context.temporary.create(), current.metadata.fields)
        await version.append([content])
        metadata = await version.seal(path, context.now())
        await room.atLeast(version.size)
        return version
      },
      exchange.signal,
    )
    return answerEmpty(
      context,
      204,
      metadata === undefined ? [] : validatorFields(context, validatorsOf(metadata)),
    )
  } finally {
    await version?.discard()
    room.release()
  }
}

/** @throws ProxyError 415 */
function patchKind({ exchange }: WriteContext): Patch['kind'] {
  const { fields } = exchange.head
  const codings = fieldValues(fields, 'content-encoding').filter(
    coding => coding.toLowerCase() !== 'identity',
  )
  if (codings.length > 0) {
    throw unsupportedPatch('A patch document has no Content-Encoding', ['Accept-Encoding', 'identity'])
  }
  const types = fieldValues(fields, 'content-type')
  const type = types.length === 1 ? types[0]?.split(';')[0]?.trim().toLowerCase() : undefined
  if (type === 'application/json-patch+json') return 'json-patch'
  if (type === 'application/merge-patch+json') return 'merge-patch'
  throw unsupportedPatch('The Content-Type is not one of a patch document')
}

/** What the target has to be, as far as that can be said without reading it. */
function checkTarget(context: WriteContext, path: string, current: ObjectMetadata | undefined): void {
  if (current === undefined) throw notFound(path)
  checkPreconditions(context, validatorsOf(current))
  if (current.length > MAX_PATCH_TARGET_BYTES) {
    throw tooLarge(
      `PATCH takes resources of ${MAX_PATCH_TARGET_BYTES} bytes at most; PUT replaces longer ones.`,
    )
  }
  if (current.fields.contentEncoding !== undefined) throw cannotApply('the resource has a Content-Encoding')
}

async function readPatch(context: WriteContext, kind: Patch['kind']): Promise<Patch> {
  const chunks: Buffer[] = []
  let length = 0
  await readContent(context.exchange, async pieces => {
    for (const piece of pieces) length += piece.length
    if (length > MAX_PATCH_BYTES) throw tooLargePatch()
    chunks.push(...pieces)
  })
  return shallow(malformedPatch, () => {
    const document = parseJson(Buffer.concat(chunks, length))
    return kind === 'json-patch' ? { kind, operations: parseJsonPatch(document) } : { kind, patch: document }
  })
}

async function readWhole(object: OpenObject): Promise<Buffer> {
  const { length } = object.metadata
  const pieces: Buffer[] = []
  for (let at = 0; at < length; ) {
    const piece = await object.read(at, length - at)
    if (piece.length === 0) throw new Error('a file of the store is torn')
    pieces.push(piece)
    at += piece.length
  }
  return Buffer.concat(pieces, length)
}

function applied(content: Buffer, patch: Patch): string {
  return shallow(cannotApply, () => {
    const target = parseJson(content)
    const result =
      patch.kind === 'json-patch'
        ? applyJsonPatch(target, patch.operations, MAX_PATCH_TARGET_BYTES)
        : applyMergePatch(target, patch.patch)
    return serializeJson(result)
  })
}

/** Turns what is no JSON, or JSON nested so deeply that the stack does not hold it, into an answer. */
function shallow<T>(refuse: (what: string) => Error, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof JsonError) throw refuse(error.message)
    if (error instanceof RangeError) throw refuse('nested too deeply')
    throw error
  }
}

function tooLargePatch(): Error {
  return tooLarge(`A patch document may have ${MAX_PATCH_BYTES} bytes.`)
}
