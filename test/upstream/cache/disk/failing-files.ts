/** A file system that fails or hangs as a test says, between a store and the real one. */
import type { DiskFiles, ReadableFile, WritableFile } from '../../../../src/upstream/cache/disk/files.js'

export type Operation =
  | 'names'
  | 'open'
  | 'read'
  | 'create'
  | 'write'
  | 'status'
  | 'touch'
  | 'rename'
  | 'remove'
  | 'makeFolder'

export class FailingFiles {
  /** What happens before an operation: nothing, an error, or a wait. */
  before: (operation: Operation, path: string) => void | Promise<void> = () => {}

  /** To be given to a store. */
  readonly wrap = (files: DiskFiles): DiskFiles => {
    const step = async <T>(operation: Operation, path: string, work: () => Promise<T>): Promise<T> => {
      await this.before(operation, path)
      return await work()
    }
    return {
      names: path => step('names', path, () => files.names(path)),
      open: path =>
        step('open', path, async () => {
          const file = await files.open(path)
          const wrapped: ReadableFile = {
            status: file.status,
            read: (at, bytes) => step('read', path, () => file.read(at, bytes)),
            close: () => file.close(),
          }
          return wrapped
        }),
      create: () =>
        step('create', '', async () => {
          const file = await files.create()
          const wrapped: WritableFile = {
            path: file.path,
            write: chunks => step('write', file.path, () => file.write(chunks)),
            close: () => file.close(),
          }
          return wrapped
        }),
      status: path => step('status', path, () => files.status(path)),
      touch: (path, modifiedMs) => step('touch', path, () => files.touch(path, modifiedMs)),
      rename: (from, to) => step('rename', to, () => files.rename(from, to)),
      remove: path => step('remove', path, () => files.remove(path)),
      makeFolder: path => step('makeFolder', path, () => files.makeFolder(path)),
    }
  }

  /** From now on these fail. */
  fail(code: string, ...operations: Operation[]): void {
    this.before = operation => {
      if (operations.includes(operation)) throw systemError(code, operation)
    }
  }

  /** From now on these wait. @returns what lets them go on */
  hold(...operations: Operation[]): () => void {
    let release = (): void => {}
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    this.before = operation => (operations.includes(operation) ? released : undefined)
    return () => {
      this.heal()
      release()
    }
  }

  heal(): void {
    this.before = () => {}
  }
}

export function systemError(code: string, syscall: string): Error {
  return Object.assign(new Error(`${code}: as the test has it, ${syscall}`), { code, syscall })
}
