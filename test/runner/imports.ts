/** What a compiled file loads: the files, Node's modules and the packages that its imports lead to. */
import { dirname, resolve } from 'node:path'

/** What there is in the closure of a file's imports. */
export interface Closure {
  /** Absolute paths, the file itself among them. */
  readonly files: ReadonlySet<string>
  /** Of Node, without `node:`. */
  readonly builtins: ReadonlySet<string>
  /** Names as they are imported, without the path inside of them. */
  readonly packages: ReadonlySet<string>
}

export interface Sources {
  /**
   * @param file an absolute path
   * @returns undefined where there is none: a test may hold the text of imports as data
   */
  read(file: string): string | undefined
}

interface Loaded {
  readonly files: readonly string[]
  readonly builtins: readonly string[]
  readonly packages: readonly string[]
}

/** `import x from 'y'`, `export … from 'y'`, `import 'y'` and `import('y')`; in the text of a script it counts as well. */
const SPECIFIER = /\b(?:from|import)\s*\(?\s*['"]([^'"\n]+)['"]/g

/** @returns the closure of a file; files are read once for all that are asked about */
export function importReader({ read }: Sources): (file: string) => Closure {
  const known = new Map<string, Loaded>()
  const load = (file: string): Loaded => {
    const before = known.get(file)
    if (before !== undefined) return before
    const loaded = loadedBy(file, read(file) ?? '')
    known.set(file, loaded)
    return loaded
  }
  return file => {
    const files = new Set([file])
    const builtins = new Set<string>()
    const packages = new Set<string>()
    // What is added while it is walked is walked, too.
    for (const each of files) {
      const loaded = load(each)
      for (const next of loaded.files) files.add(next)
      for (const name of loaded.builtins) builtins.add(name)
      for (const name of loaded.packages) packages.add(name)
    }
    return { files, builtins, packages }
  }
}

function loadedBy(file: string, text: string): Loaded {
  const files: string[] = []
  const builtins: string[] = []
  const packages: string[] = []
  for (const [, specifier = ''] of text.matchAll(SPECIFIER)) {
    if (specifier.startsWith('node:')) builtins.push(specifier.slice('node:'.length))
    else if (specifier.startsWith('.')) files.push(resolve(dirname(file), specifier))
    else if (/^(?:@[\w.-]+\/)?[\w.-]+(?:\/|$)/.test(specifier)) packages.push(packageName(specifier))
  }
  return { files, builtins, packages }
}

function packageName(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}
