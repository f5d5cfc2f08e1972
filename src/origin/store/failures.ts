/** Translates errors of the file system to responses: a full disk is 507, anything else is a fault of the installation. */
import { errorCode, ProxyError, toProxyError } from '../../errors.js'
import { outOfDescriptors } from '../../upstream/failures.js'

const NO_ROOM: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT'])
/** Errors of the directory. ENOENT is a link without a target, or a removed directory: a missing resource is no error. */
const UNUSABLE: ReadonlySet<string | undefined> = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOTDIR',
  'ENOENT',
  'ELOOP',
])

/** Errors of the process as a whole, which say nothing about a single file. */
const SHORTAGE: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'ENOMEM'])

/** Whether the disk, or the quota of this user, is full. */
export function isNoRoom(error: unknown): boolean {
  return NO_ROOM.has(errorCode(error))
}

export function isMissing(error: unknown): boolean {
  return errorCode(error) === 'ENOENT'
}

/** Whether the system cannot read a file for a reason that is about that file. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && !SHORTAGE.has(errorCode(error))
}

/** Translates an error that was thrown while the store served a request. */
export function storeFailure(error: unknown): ProxyError {
  const code = errorCode(error)
  if (isNoRoom(error)) {
    return new ProxyError('proxy_internal_response', 'the disk of the store is full', {
      status: 507,
      reason: 'store_full',
      detail: 'The disk that holds origins[].store.directory is full; nothing was changed.',
      cause: error,
    })
  }
  if (UNUSABLE.has(code)) {
    return new ProxyError('proxy_internal_error', 'the store cannot use its directory', {
      reason: 'store_directory',
      detail: `origins[].store.directory must be a directory that Sluice can read and write (${code}).`,
      cause: error,
    })
  }
  return outOfDescriptors(error, 'the store') ?? toProxyError(error)
}
