/** Why a file could not be read, for people. */

const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EISDIR: 'is a directory, not a file',
  EACCES: 'no permission to read it',
  EPERM: 'no permission to read it',
  ENOTDIR: 'no such file: a part of its path is not a directory',
}

/** @param error what reading threw */
export function readErrorText(error: unknown): string {
  if (error instanceof RangeError) return error.message
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return READ_ERRORS[code] ?? `can not be read (${code === '' ? String(error) : code})`
}
