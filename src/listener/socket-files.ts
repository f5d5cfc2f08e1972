/**
 * The files of the Unix sockets that this process makes: one that ends without closing them, at a second signal, takes
 * them away, and leaves what another has put there.
 */
import { lstatSync, unlinkSync } from 'node:fs'

/** One that comes to its path later may have its number, but is younger. */
interface SocketFile {
  readonly path: string
  readonly dev: bigint
  readonly ino: bigint
  readonly birthtimeNs: bigint
}

export class SocketFiles {
  readonly #paths: readonly string[]
  readonly #before: readonly SocketFile[]
  /** Undefined until all are made. */
  #made: readonly SocketFile[] | undefined

  /** @param paths where they are going to be; what lies there by now is not ours */
  constructor(paths: readonly string[]) {
    this.#paths = paths
    this.#before = findAll(paths)
  }

  /** All are made: one that comes to a path from here on is not ours. */
  made(): void {
    this.#made = this.#find()
  }

  /** All are closed, which has removed them. */
  closed(): void {
    this.#made = []
  }

  /** For the end of the process, which stops for nothing. */
  remove(): void {
    for (const file of this.#made ?? this.#find()) {
      if (!isSame(file, find(file.path))) continue
      try {
        unlinkSync(file.path)
      } catch {
        // It is in the way of nobody: the next to listen there removes it.
      }
    }
  }

  #find(): readonly SocketFile[] {
    return findAll(this.#paths).filter(file => !this.#before.some(before => isSame(before, file)))
  }
}

function findAll(paths: readonly string[]): SocketFile[] {
  return paths.flatMap(path => find(path) ?? [])
}

/** @returns undefined where there is none, or none to be seen */
function find(path: string): SocketFile | undefined {
  try {
    const found = lstatSync(path, { bigint: true })
    if (!found.isSocket()) return undefined
    return { path, dev: found.dev, ino: found.ino, birthtimeNs: found.birthtimeNs }
  } catch {
    return undefined
  }
}

function isSame(a: SocketFile, b: SocketFile | undefined): boolean {
  return a.path === b?.path && a.dev === b.dev && a.ino === b.ino && a.birthtimeNs === b.birthtimeNs
}
