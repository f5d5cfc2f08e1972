/** What a small file of the system says, read again once it has changed. */
import { readFileSync, statSync } from 'node:fs'

/**
 * @param parse makes of the text what is wanted; it gets an empty one where there is no file, or none that can be read
 * @returns what tells how it is now: that costs a look at the file's times, and no more while it stays as it is
 */
export function readWhenChanged<T>(path: string, parse: (text: string) => T): () => T {
  let read: { readonly state: string; readonly value: T } | undefined
  return () => {
    const state = stateOf(path)
    if (read?.state !== state) read = { state, value: parse(state === '' ? '' : textOf(path)) }
    return read.value
  }
}

function stateOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats?.isFile() === true ? `${stats.ino} ${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}` : ''
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
