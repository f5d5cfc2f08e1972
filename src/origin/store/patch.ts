/**
 * PATCH: a resource that is JSON, changed by a patch document (RFC 5789).
 *
 * The target is read, changed in memory and written as a new version under its lock, so that either all of a patch is
 * seen or nothing, and nobody's write is lost between.
 */
import type { CancelSignal, Exchange } from '../../exchange.js'
import { fieldValues } from '../../http/fields.js'
import type { Outcome } from '../../outcome.js'
import {
  answerEmpty,
  cannotApply,
  checkPreconditions,
  notFound,
  tooLarge,
  tooLargeObject,
  unsupportedPatch,
  validatorFields,
} from './answers.js'
import { type BudgetShare, ClientBudget, Turns } from './turns.js'
import { readContent } from './content.js'
import { NewVersion } from './new-version.js'
import { type ObjectMetadata, type OpenObject, validatorsOf } from './object-file.js'
import {
  applyPatch,
  isShort,
  MAX_PATCH_BYTES,
  MAX_PATCH_TARGET_BYTES,
  type PatchJob,
  type PatchKind,
} from './patch-document.js'
import { PatchThread } from './patch-thread.js'
import type { WriteContext } from './put.js'
import { fileBytes } from './usage.js'

/** What patch documents may take in memory together: some thirty of the longest, or a thousand usual ones. */
const DOCUMENT_BUDGET = {
  inAll: 32 * MAX_PATCH_BYTES,
  perClient: 8 * MAX_PATCH_BYTES,
  what: 'patch documents',
}
/** Patches being applied: each has its target and its result in memory too. */
const APPLIED_AT_ONCE = 4
const FIRST_BYTES = 4096
/** What one has in memory beside its document while it waits: the start of its target, mostly. */
const BASE_BYTES = 32 * 1024

/** Of one store. */
export class Patches {
  readonly #budget = new ClientBudget(DOCUMENT_BUDGET)
  readonly #turns = new Turns(APPLIED_AT_ONCE)
  readonly #thread: PatchThread

  constructor(thread = new PatchThread()) {
    this.#thread = thread
  }

  /**
   * @param path of a resource
   * @param network of the client
   * @throws ProxyError 400, 404, 412, 413, 415, 422, 429, 503, 507; ClientGone
   */
  async patch(context: WriteContext, path: string, network: string): Promise<Outcome> {
    const { exchange, objects } = context
    const kind = patchKind(context)
    if ((exchange.content.length ?? 0) > MAX_PATCH_BYTES) throw tooLargePatch()
    checkTarget(context, path, await objects.metadata(path))
    const share = this.#budget.share(network)
    try {
      share.take(BASE_BYTES)
      const document = await readDocument(exchange, share)
      return await this.#replace(context, path, network, (target, signal) =>
        this.#apply({ kind, target, document }, network, signal),
      )
    } finally {
      share.giveBack()
    }
  }

  /** To be called when nothing is patched any more. */
  async close(): Promise<void> {
    await this.#thread.close()
  }

  /** Under the lock of the resource, in which few have a turn at a time: what waits has its patch document alone. */
  async #replace(
    context: WriteContext,
    path: string,
    network: string,
    apply: (target: Buffer, signal: CancelSignal) => Promise<Buffer>,
  ): Promise<Outcome> {
    const { objects, usage, exchange } = context
    const { signal } = exchange
    const room = usage.reserve(0)
    let version: NewVersion | undefined
    let metadata: ObjectMetadata | undefined
    const next = async (current: OpenObject | undefined, freedBytes: number): Promise<NewVersion> => {
      checkTarget(context, path, current?.metadata)
      if (current === undefined) throw notFound(path)
      const content = await apply(await readWhole(current), signal)
      if (content.length > context.maxObjectBytes) throw tooLargeObject(context.maxObjectBytes)
      await room.replaces(freedBytes)
      await room.atLeast(fileBytes(content.length))
      version = new NewVersion(await context.temporary.create(), current.metadata.fields)
      await version.append([content])
      metadata = await version.seal(path, context.now())
      await room.atLeast(fileBytes(version.size))
      return version
    }
    try {
      await objects.replace(
        path,
        (current, freedBytes) => this.#turns.run(() => next(current, freedBytes), network, signal),
        room,
        signal,
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

  async #apply(job: PatchJob, network: string, signal: CancelSignal): Promise<Buffer> {
    return isShort(job) ? applyPatch(job) : await this.#thread.apply(job, network, signal)
  }
}

/** @throws ProxyError 415 */
function patchKind({ exchange }: WriteContext): PatchKind {
  const fields = exchange.head.fields.list
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

/** In one piece that grows, since a client may send a byte at a time. */
async function readDocument(exchange: Exchange, share: BudgetShare): Promise<Buffer> {
  let document = Buffer.alloc(0)
  let length = 0
  await readContent(exchange, async pieces => {
    for (const piece of pieces) {
      const end = length + piece.length
      if (end > MAX_PATCH_BYTES) throw tooLargePatch()
      if (end > document.length) {
        const capacity = Math.min(MAX_PATCH_BYTES, Math.max(FIRST_BYTES, 2 * document.length, end))
        share.take(capacity - document.length)
        const larger = Buffer.allocUnsafeSlow(capacity)
        document.copy(larger, 0, 0, length)
        document = larger
      }
      piece.copy(document, length)
      length = end
    }
  })
  return document.subarray(0, length)
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

function tooLargePatch(): Error {
  return tooLarge(`A patch document may have ${MAX_PATCH_BYTES} bytes.`)
}
