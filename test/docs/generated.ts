/**
 * The files of the documentation that are made from something else, whole or in part: `npm run docs` writes them, and a
 * test compares them with what is there.
 */
import { jsonSchema } from '../../src/cli/schema.js'
import { headingsOf, readmePaths, readReadme } from '../kit/readmes.js'
import { contentsOf } from './contents.js'
import { defaultFile } from './default-file.js'
import { keyTable } from './key-table.js'

/** More headings than these, and a README begins with a table of contents. */
export const MAX_HEADINGS = 8

/** @returns what the files should hold, by path relative to the root */
export function generatedFiles(): Map<string, string> {
  const schema = jsonSchema()
  const files = new Map([['config/default.yaml', defaultFile(schema)]])
  for (const path of readmePaths()) {
    let text = readReadme(path)
    if (path === 'config/README.md') text = withBlock(text, 'keys', keyTable(schema), path)
    if (headingsOf(text).length > MAX_HEADINGS) text = withContents(text, path)
    files.set(path, text)
  }
  return files
}

/** A README with what stands between `<!-- NAME -->` and `<!-- end of NAME -->` replaced. */
function withBlock(text: string, name: string, block: string, path: string): string {
  const [begin, end] = [`<!-- ${name} -->\n`, `\n<!-- end of ${name} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${path} has no place for the ${name}`)
  return `${text.slice(0, from)}${begin}\n${block}\n${text.slice(to)}`
}

function withContents(text: string, path: string): string {
  const sections = headingsOf(text).filter(({ level }) => level === 2)
  const [contents, next] = sections
  if (contents?.text !== 'Contents') {
    const at = sections[0]?.at
    if (at === undefined) throw new Error(`${path} has no section`)
    return `${text.slice(0, at)}## Contents\n\n${contentsOf(text)}\n\n${text.slice(at)}`
  }
  return `${text.slice(0, contents.at)}## Contents\n\n${contentsOf(text)}\n\n${text.slice(next?.at ?? text.length)}`
}
