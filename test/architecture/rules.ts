/**
 * What the structure of src/ must keep: which part may import which, that files stay small, and that the process
 * and outbound sockets are touched in one place each. Reads syntax trees, so that comments and strings do not count.
 */
import { posix } from 'node:path'
import ts from 'typescript'

/**
 * The layers of src/ and the parts in each. A part imports its own layer and those above it in this list; the last two
 * rows are the program's entrance and the package's.
 */
const LAYERS: readonly (readonly string[])[] = [
  ['errors', 'outcome', 'exchange', 'pause', 'http', 'http1', 'net'],
  ['config', 'policy', 'clients', 'limits', 'tls', 'cache'],
  ['dns', 'upstream', 'listener', 'pipeline', 'forward', 'tunnel', 'origin'],
  ['observe', 'tracing', 'advice', 'admin', 'run', 'supervisor', 'cli'],
  ['bin'],
  ['index'],
]
const MAX_LINES = 450
const NO_NAME = /^(?:utils?|helpers?|commons?|misc)$/
const PROCESS_FILE = 'bin.ts'
/** The one that opens outbound connections, and one that asks whether a Unix socket of ours is still in use. */
const DIAL_FILES = new Set(['upstream/dial.ts', 'listener/unix-socket.ts'])
const SOCKET_MODULES = new Set(['node:net', 'node:tls', 'net', 'tls'])
const DIALLERS = new Set(['connect', 'createConnection'])

/**
 * @param files text by path relative to src/
 * @returns one sentence for each breach, none when all is well
 */
export function findBreaches(files: ReadonlyMap<string, string>): string[] {
  const breaches: string[] = []
  const imports = new Map<string, string[]>()
  for (const [file, text] of files) {
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true)
    const targets = importedModules(source)
      .filter(specifier => specifier.startsWith('.'))
      .map(specifier => posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts'))
    imports.set(file, targets)
    breaches.push(...targets.flatMap(target => judgeImport(file, target)))
    breaches.push(...judgeFile(file, text))
    if (file !== PROCESS_FILE && usesProcess(source)) breaches.push(`${file} uses process`)
    if (!DIAL_FILES.has(file) && usesDialler(source)) breaches.push(`${file} opens outbound sockets`)
  }
  return [...breaches, ...findCircles(imports)]
}

function layerOf(file: string): number {
  const part = (file.split('/')[0] ?? '').replace(/\.ts$/, '')
  return LAYERS.findIndex(layer => layer.includes(part))
}

function judgeImport(from: string, to: string): string[] {
  if (layerOf(to) === -1) return [`${from} imports ${to}, which is in no known part`]
  return layerOf(to) > layerOf(from) ? [`${from} imports ${to}, which is in a layer below`] : []
}

function judgeFile(file: string, text: string): string[] {
  const breaches: string[] = []
  const lines = text.trimEnd().split('\n').length
  if (lines > MAX_LINES) breaches.push(`${file} has ${lines} lines`)
  if (layerOf(file) === -1) breaches.push(`${file} is in no known part`)
  const named = file.replace(/\.ts$/, '').split('/')
  if (named.some(name => NO_NAME.test(name))) breaches.push(`${file} has a name that says nothing`)
  return breaches
}

/** Calls `visit` with every node of the tree. */
function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node)
  ts.forEachChild(node, child => walk(child, visit))
}

/** The modules that a file imports or re-exports, types and dynamic imports among them. */
function importedModules(source: ts.SourceFile): string[] {
  const modules: string[] = []
  walk(source, node => {
    let specifier: ts.Node | undefined
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) specifier = node.moduleSpecifier
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      specifier = node.argument.literal
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      specifier = node.arguments[0]
    }
    if (specifier !== undefined && ts.isStringLiteralLike(specifier)) modules.push(specifier.text)
  })
  return modules
}

/** A use of the global, or an import of the module; a property that happens to be called process is neither. */
function usesProcess(source: ts.SourceFile): boolean {
  let found = importedModules(source).some(name => name === 'node:process' || name === 'process')
  walk(source, node => {
    if (!ts.isIdentifier(node) || node.text !== 'process') return
    const { parent } = node
    if (ts.isPropertyAccessExpression(parent) || ts.isElementAccessExpression(parent)) {
      found ||= parent.expression === node || isGlobal(parent.expression)
    }
  })
  return found
}

function isGlobal(node: ts.Node): boolean {
  return ts.isIdentifier(node) && node.text === 'globalThis'
}

/** connect or createConnection of node:net or node:tls, imported by name or taken from the module. */
function usesDialler(source: ts.SourceFile): boolean {
  const modules = new Set<string>()
  let found = false
  walk(source, node => {
    if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
      if (!SOCKET_MODULES.has(node.moduleSpecifier.text)) return
      const clause = node.importClause
      if (clause?.name !== undefined) modules.add(clause.name.text)
      const bindings = clause?.namedBindings
      if (bindings === undefined) return
      if (ts.isNamespaceImport(bindings)) modules.add(bindings.name.text)
      else
        found ||= bindings.elements.some(({ name, propertyName }) =>
          DIALLERS.has((propertyName ?? name).text),
        )
    } else if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression)) {
      found ||= modules.has(node.expression.text) && DIALLERS.has(node.name.text)
    }
  })
  return found
}

function findCircles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const circles: string[] = []
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]) => {
    const start = path.indexOf(file)
    if (start !== -1) circles.push(`circle: ${[...path.slice(start), file].join(' -> ')}`)
    if (start !== -1 || done.has(file)) return
    for (const target of imports.get(file) ?? []) visit(target, [...path, file])
    done.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
  return circles
}
