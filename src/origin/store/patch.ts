/**
 * PATCH: changes a JSON resource by a patch document (RFC 5789).
 *
 * The target is read, changed in memory and written as a new version under its lock. So a patch becomes visible as a whole
 * or not at all, and no other write is lost.
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

/** Memory that all patch documents may take together: some thirty of the longest, or a thousand usual ones. */
const DOCUMENT_BUDGET = {
  total: 32 * MAX_PATCH_BYTES,
  perClient: 8 * MAX_PATCH_BYTES,
  what: 'patch documents',
}
/** How many patches are applied at a time: each also holds its target and its result in memory. */
const CONCURRENCY = 4
const FIRST_BYTES = 4096
/** Memory that a waiting patch takes in addition to its document: mostly the start of its target. */
const BASE_BYTES = 32 * 1024

/** Applies the patches of one store. */
export class Patches {
  readonly #budget = new ClientBudget(DOCUMENT_BUDGET)
  readonly #turns = new Turns(CONCURRENCY)
  readonly #thread: PatchThread

  constructor(thread = new PatchThread()) {
    this.#thread = thread
  }

  /**
   * @param path the path of a resource
   * @param network the network of the client
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

  /** Must be called when no patch is in progress. */
  async close(): Promise<void> {
    await this.#thread.close()
  }

  /** Replaces the resource under its lock. Few patches run at a time; waiting ones hold only their patch document. */
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
    throw unsupportedPatch('A patch document must not have a Content-Encoding', [
      'Accept-Encoding',
      'identity',
    ])
  }
  const types = fieldValues(fields, 'content-type')
  const type = types.length === 1 ? types[0]?.split(';')[0]?.trim().toLowerCase() : undefined
  if (type === 'application/json-patch+json') return 'json-patch'
  if (type === 'application/merge-patch+json') return 'merge-patch'
  throw unsupportedPatch('The Content-Type is not that of a patch document')
}

/** Checks the target as far as possible without reading its content. @throws ProxyError 404, 412, 413, 422 */
function checkTarget(context: WriteContext, path: string, current: ObjectMetadata | undefined): void {
  if (current === undefined) throw notFound(path)
  checkPreconditions(context, validatorsOf(current))
  if (current.length > MAX_PATCH_TARGET_BYTES) {
    throw tooLarge(
      `PATCH is limited to resources of ${MAX_PATCH_TARGET_BYTES} bytes; use PUT to replace a longer one.`,
    )
  }
  if (current.fields.contentEncoding !== undefined) throw cannotApply('the resource has a Content-Encoding')
}

/** Reads the document into one growing buffer, since a client may send it byte by byte. */
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
    if (piece.length === 0) throw new Error('a file of the store is incomplete')
    pieces.push(piece)
    at += piece.length
  }
  return Buffer.concat(pieces, length)
}

function tooLargePatch(): Error {
  return tooLarge(`A patch document may have at most ${MAX_PATCH_BYTES} bytes.`)
}
