/**
 * From the schema's issues to faults with a place in the file: which key or value each one means, and what was found
 * there.
 */
import type * as z from 'zod'
import { type Path, quoteKey } from './problem.js'
import { withoutUserinfo } from './upstream-url.js'
import type { Fault, Located } from './yaml-tree.js'

type Issue = z.core.$ZodIssue

/** @param issues what safeParse of `root.value` reported */
export function faultsOfIssues(issues: readonly Issue[], root: Located): Fault[] {
  return issues.flatMap(issue => faultsOf(issue, pathOf(issue), root))
}

/** The value at a path; undefined when the file has none there. */
export function valueAt(root: Located | undefined, ...path: Path): Located | undefined {
  return path.reduce<Located | undefined>((node, step) => node?.children.get(step), root)
}

function faultsOf(issue: Issue, path: Path, root: Located): Fault[] {
  const node = valueAt(root, ...path)
  const offset = node?.start ?? 0
  if (issue.code === 'custom') return [{ offset, path, message: issue.message }]
  if (issue.code === 'unrecognized_keys') {
    const lines = issue.message.split('\n')
    return issue.keys.map((key, i) => {
      const at = [...path, key]
      return { offset: valueAt(root, ...at)?.key ?? offset, path: at, message: lines[i] ?? issue.message }
    })
  }
  if (issue.code === 'invalid_union') {
    // The alternative that got furthest into the value is the one that was meant.
    const inner = issue.errors.find(branch => branch.some(({ path: below }) => below.length > 0))
    if (inner !== undefined) return inner.flatMap(each => faultsOf(each, [...path, ...pathOf(each)], root))
  }
  if (node !== undefined) return [{ offset, path, message: `${issue.message}, found ${show(node.value)}` }]
  const parent = valueAt(root, ...path.slice(0, -1)) ?? root
  const message = `the key ${quoteKey(String(path.at(-1)))} is missing; ${issue.message}`
  return [{ offset: parent === root ? root.start : parent.key, path, message }]
}

function pathOf(issue: Issue): Path {
  return issue.path.map(step => (typeof step === 'number' ? step : String(step)))
}

const SHOWN_CHARACTERS = 60

/** A value for a message. */
function show(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object') return 'a map'
  if (typeof value !== 'string') return String(value)
  const text = withoutUserinfo(value)
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text)
}
