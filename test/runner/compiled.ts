/** Where the compiler puts what it makes of a file. */
import { readdirSync } from 'node:fs'
import { join, sep } from 'node:path'

/** Compiled apart, for browsers. */
const PAGE = 'src/admin/page/client/'

/** @param source path of a .ts file relative to the root */
export function compiledFile(root: string, source: string): string {
  return join(root, '.build', source.replace(/ts$/, 'js'))
}

/** @returns paths relative to the root, with forward slashes, of all that is compiled for Node */
export function sourceFiles(root: string): string[] {
  return ['src', 'test'].flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map(name => `${folder}/${name.split(sep).join('/')}`)
      .filter(name => name.endsWith('.ts') && !name.endsWith('.d.ts') && !name.startsWith(PAGE))
      .sort(),
  )
}
