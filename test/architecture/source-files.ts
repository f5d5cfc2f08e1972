/** The text of the project's TypeScript files, by path with forward slashes, for the tests that read them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Compiled to .build/test/architecture, three levels below the root. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

/**
 * @param directory relative to the root of the project
 * @returns text by path relative to `directory`
 */
export function readSourceFiles(directory: string): Map<string, string> {
  const files = new Map<string, string>()
  for (const name of readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' }).sort()) {
    if (!name.endsWith('.ts')) continue
    files.set(name.split(sep).join('/'), readFileSync(join(ROOT, directory, name), 'utf8'))
  }
  return files
}
