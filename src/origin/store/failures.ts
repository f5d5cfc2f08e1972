/** What the file system's errors mean for the answer: no room is 507, and anything else is a fault of the set-up. */
import { errorCode, ProxyError, toProxyError } from '../../errors.js'
import { outOfDescriptors } from '../../upstream/failures.js'

const NO_ROOM: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT'])
/** ENOENT is a link that leads nowhere, or what was in use and has been taken away: a name nobody has stored is none. */
const UNUSABLE: ReadonlySet<string | undefined> = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOTDIR',
  'ENOENT',
  'ELOOP',
])

/** Of the whole process, which says nothing about a file. */
const SHORTAGE: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'ENOMEM'])

/** Whether the disk, or what this user may have of it, is full. */
export function isNoRoom(error: unknown): boolean {
  return NO_ROOM.has(errorCode(error))
}

export function isMissing(error: unknown): boolean {
  return errorCode(error) === 'ENOENT'
}

/** Whether the system can not read a file because of what that file is. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error && !SHORTAGE.has(errorCode(error))
}

/** Anything thrown while the store served a request, as what answers it. */
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
    return new ProxyError('proxy_internal_error', 'the store can not use its directory', {
      reason: 'store_directory',
      detail: `origins[].store.directory has to be a directory that Sluice may read and write (${code}).`,
      cause: error,
    })
  }
  return outOfDescriptors(error, 'the store') ?? toProxyError(error)
}
