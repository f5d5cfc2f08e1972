import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ROOT } from '../kit/readmes.js'
import { generatedFiles } from './generated.js'

t.test(
  'what is made from the schema and from headings is up to date; if not, npm run docs writes it',
  async t => {
    const files = generatedFiles()
    t.ok(files.has('config/default.yaml') && files.has('config/README.md'))
    for (const [path, text] of files) t.equal(readFileSync(join(ROOT, path), 'utf8'), text, path)
  },
)
