/** Errors in the table of statements: missing statements, and tests that do not exist or test nothing. */
import ts from 'typescript'
import type { Statement } from './statement.js'
import { RFC_SECTIONS } from './statements-table.js'

/** Functions that open sockets: a file without any of them tests no bytes. */
const WIRE = /from '\.\.\/kit\/proxies\/(?:test-proxy|setups)\.js'/
/** Folders of decisions that are tested without sockets. */
const DECISIONS = 'cache/'
const ASSERTIONS = /^(?:equal|not|same|notSame|strictSame|match|notMatch|has|ok|notOk|throws|rejects)$/

interface WrittenTest {
  /** As in the source, including `${}`. */
  readonly title: string
  readonly asserts: boolean
  /** Whether anything other than title and callback could prevent it from running. */
  readonly optional: boolean
}

/**
 * @param counts the number of statements in each section
 * @param sources the test files, by name without `.test.ts`
 * @returns a sentence for each error
 */
export function faultsOf(
  statements: readonly Statement[],
  counts: Readonly<Record<string, number>>,
  sources: ReadonlyMap<string, string>,
): string[] {
  const expected = Object.entries(counts).flatMap(([section, count]) =>
    Array.from({ length: count }, (_, i) => `${section}/${i + 1}`),
  )
  const numbers = statements.map(([number]) => number)
  const faults = [
    ...expected.filter(number => !numbers.includes(number)).map(number => `${number} is missing`),
    ...numbers.filter(number => !expected.includes(number)).map(number => `${number} is one too many`),
    ...numbers.filter((number, i) => numbers.indexOf(number) !== i).map(number => `${number} stands twice`),
  ]
  const written = new Map<string, WrittenTest[]>()
  const testsOf = (file: string, source: string): WrittenTest[] => {
    const tests = written.get(file) ?? readTests(source)
    written.set(file, tests)
    return tests
  }
  for (const [number, , ...tests] of statements) {
    if (tests.length === 0) faults.push(`${number} has no test`)
    for (const test of tests) {
      const at = test.indexOf(' > ')
      const [file, title] = [test.slice(0, at), test.slice(at + 3)]
      const source = sources.get(file)
      if (at < 0 || source === undefined) {
        faults.push(`${number}: no such file: ${test}`)
        continue
      }
      if (!WIRE.test(source) && !file.startsWith(DECISIONS)) faults.push(`${number}: ${file} opens no socket`)
      const found = testsOf(file, source).filter(one => one.title === title)
      if (found.length !== 1) faults.push(`${number}: ${found.length} tests are called: ${test}`)
      if (found.some(one => !one.asserts)) faults.push(`${number}: asserts nothing: ${test}`)
      if (found.some(one => one.optional)) faults.push(`${number}: may be left out: ${test}`)
      if (!namesSection(title, number)) faults.push(`${number}: names another section: ${test}`)
    }
  }
  return faults
}

/** Whether a title begins with the section of a statement, or names that of an RFC. */
function namesSection(title: string, number: string): boolean {
  const section = number.slice(0, number.indexOf('/'))
  const leading = /^\d[\d.]*(?:, \d[\d.]*)* /.exec(title)?.[0].trim().split(', ') ?? []
  const cited = title.matchAll(/RFC \d+ §[\d.]*\d/g)
  return (
    leading.includes(section) || [...cited].some(([rfc]) => RFC_SECTIONS[section]?.includes(rfc) === true)
  )
}

function readTests(source: string): WrittenTest[] {
  const tests: WrittenTest[] = []
  const visit = (node: ts.Node): void => {
    const title = titleOf(node)
    if (title !== undefined && ts.isCallExpression(node)) {
      const callback = node.arguments.at(-1)
      tests.push({
        title,
        asserts: callback !== undefined && asserts(callback),
        optional: node.arguments.length !== 2,
      })
    }
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('', source, ts.ScriptTarget.ES2022, true))
  return tests
}

/** The title, if the node is a call of `t.test`. */
function titleOf(node: ts.Node): string | undefined {
  if (!ts.isCallExpression(node) || node.expression.getText() !== 't.test') return undefined
  const title = node.arguments[0]
  if (title === undefined) return undefined
  if (ts.isStringLiteralLike(title)) return title.text
  return ts.isTemplateExpression(title) ? title.getText().slice(1, -1) : undefined
}

/** Whether it contains an assertion: of tap, or a function of the tests that checks. */
function asserts(node: ts.Node): boolean {
  if (ts.isCallExpression(node)) {
    const called = node.expression
    if (ts.isIdentifier(called) && called.text.startsWith('check')) return true
    if (
      ts.isPropertyAccessExpression(called) &&
      called.expression.getText() === 't' &&
      ASSERTIONS.test(called.name.text)
    ) {
      return true
    }
  }
  return ts.forEachChild(node, child => asserts(child) || undefined) ?? false
}
