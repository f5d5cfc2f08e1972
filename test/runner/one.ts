/**
 * Runs one file of tests soon after a change: what is newer than its compiled file is translated, and no types are checked.
 *
 *     npm run test:one -- test/http/via.test.ts
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compiledFile, sourceFiles } from './compiled.js'

/** Compiled to .build/test/runner. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

function modified(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

async function translate(sources: readonly string[]): Promise<void> {
  if (sources.length === 0) return
  // It takes longer to load than a file to translate.
  const { default: ts } = await import('typescript')
  const options = {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
    sourceMap: true,
  }
  for (const source of sources) {
    const compiled = compiledFile(ROOT, source)
    const fileName = relative(dirname(compiled), join(ROOT, source))
    const text = readFileSync(join(ROOT, source), 'utf8')
    const { outputText, sourceMapText = '' } = ts.transpileModule(text, {
      fileName,
      compilerOptions: options,
    })
    mkdirSync(dirname(compiled), { recursive: true })
    writeFileSync(compiled, outputText.replace(/(?<=sourceMappingURL=).*/, `${basename(compiled)}.map`))
    writeFileSync(`${compiled}.map`, sourceMapText)
  }
}

const [file, ...args] = process.argv.slice(2)
if (file === undefined || !file.endsWith('.ts')) {
  process.stderr.write('usage: npm run test:one -- test/http/via.test.ts\n')
  process.exit(64)
}
await translate(
  sourceFiles(ROOT).filter(source => modified(compiledFile(ROOT, source)) < modified(join(ROOT, source))),
)
const test = compiledFile(ROOT, relative(ROOT, resolve(file)))
const { status } = spawnSync(process.execPath, ['--enable-source-maps', test, ...args], { stdio: 'inherit' })
process.exitCode = status ?? 1
