/** The lists of tests that pass, one for each way to use Sluice: one id a line, in alphabetical order. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ROOT } from '../system/program.js'
import type { Way } from './ways.js'

function fileOf(way: Way): string {
  return join(ROOT, 'test/conformance/passes', `${way}.txt`)
}

export async function readPasses(way: Way): Promise<readonly string[]> {
  const text = await readFile(fileOf(way), 'utf8')
  return text.split('\n').filter(line => line !== '')
}

export async function writePasses(way: Way, ids: readonly string[]): Promise<void> {
  await writeFile(fileOf(way), ids.map(id => `${id}\n`).join(''))
}
