/**
 * Runs one file of tests soon after a change: what is newer than its compiled file is translated, and no types are checked.
 *
 *     npm run test:one -- test/http/via.test.ts
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Diagnostic } from 'typescript'
import { compiledFile, sourceFiles } from './compiled.js'

/** A test that holds up the event loop keeps its own limit from being looked at. */
const LIMIT_MS = 120_000

/** Compiled to .build/test/runner. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

function modified(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

/** @returns what is no TypeScript at all, a line each; nothing is written of such a file */
async function translate(sources: readonly string[]): Promise<string[]> {
  const faults: string[] = []
  if (sources.length === 0) return faults
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
    const {
      outputText,
      sourceMapText = '',
      diagnostics = [],
    } = ts.transpileModule(text, { fileName, compilerOptions: options, reportDiagnostics: true })
    if (diagnostics.length > 0) {
      faults.push(...diagnostics.map(found => faultLine(ts, source, text, found)))
      continue
    }
    mkdirSync(dirname(compiled), { recursive: true })
    writeFileSync(compiled, outputText.replace(/(?<=sourceMappingURL=).*/, `${basename(compiled)}.map`))
    writeFileSync(`${compiled}.map`, sourceMapText)
  }
  return faults
}

function faultLine(
  ts: typeof import('typescript'),
  source: string,
  text: string,
  { start = 0, messageText }: Diagnostic,
): string {
  const before = text.slice(0, start).split('\n')
  const position = `${before.length}:${(before.at(-1)?.length ?? 0) + 1}`
  return `${source}:${position}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}\n`
}

const [file, ...others] = process.argv.slice(2)
if (file?.endsWith('.test.ts') !== true || others.length > 0 || modified(file) === 0) {
  const problem = file === undefined || file.endsWith('.test.ts') ? '' : `${file} is no file of tests\n`
  const missing = problem === '' && file !== undefined && modified(file) === 0 ? `${file} is not there\n` : ''
  process.stderr.write(`${problem}${missing}usage: npm run test:one -- test/http/via.test.ts\n`)
  process.exit(64)
}
const faults = await translate(
  sourceFiles(ROOT).filter(source => modified(compiledFile(ROOT, source)) < modified(join(ROOT, source))),
)
const test = compiledFile(ROOT, relative(ROOT, resolve(file)))
if (faults.length > 0) {
  process.stderr.write(faults.join(''))
  process.exit(1)
}
const check = new URL('../kit/every-test.js', import.meta.url).href
const { status, signal } = spawnSync(process.execPath, ['--enable-source-maps', `--import=${check}`, test], {
  stdio: 'inherit',
  timeout: LIMIT_MS,
  killSignal: 'SIGKILL',
})
if (signal === 'SIGKILL') process.stderr.write(`${file} was killed: it went on for ${LIMIT_MS / 1000} s\n`)
process.exitCode = status ?? 1
