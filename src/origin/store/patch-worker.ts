/** The worker thread that applies long patches: it answers each message with one message, in the same order. */
import { parentPort } from 'node:worker_threads'
import { ProxyError } from '../../errors.js'
import { applyPatch, type PatchJob } from './patch-document.js'

/** `refused` has the parts of a ProxyError: the error itself would become a plain Error when it is posted. */
export type PatchAnswer =
  | { readonly content: Uint8Array }
  | {
      readonly refused: Pick<ProxyError, 'type' | 'message' | 'status' | 'reason'> & {
        readonly detail: string
      }
    }

parentPort?.on('message', (job: PatchJob) => {
  parentPort?.postMessage(answerTo(job))
})

function answerTo(job: PatchJob): PatchAnswer {
  try {
    return { content: applyPatch(job) }
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error
    const { type, message, status, reason, detail = '' } = error
    return { refused: { type, message, status, reason, detail } }
  }
}
