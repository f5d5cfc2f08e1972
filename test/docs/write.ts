/** `npm run docs`: writes what of the documentation is made from the schema and from headings. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../kit/readmes.js'
import { generatedFiles } from './generated.js'

for (const [path, text] of generatedFiles()) {
  const file = join(ROOT, path)
  if (readFileSync(file, 'utf8') === text) continue
  writeFileSync(file, text)
  process.stdout.write(`${path}\n`)
}
