/** Parses the part of PromQL that the dashboard and the alerts use, and refuses everything else. */
import { LABEL_VALUES, labelsOf } from './metric-names.js'

const TOKEN =
  /\s*(?:(?<text>"[^"]*")|\[(?<range>[^\]]*)\]|(?<number>\d[\d.]*)(?![\w.])|(?<duration>\d+[smhd])(?!\w)|(?<word>[A-Za-z_]\w*)|(?<sign>=~|!~|!=|==|>=|<=|[-+*/<>=(){},]))/y
const RANGE = /^(?:\d+[smhd]|\$__rate_interval)$/
const FUNCTIONS = ['time', 'rate', 'increase', 'histogram_quantile', 'sum', 'count', 'min', 'max']
/** Keywords that are followed by a list of labels. */
const GROUPINGS = ['by', 'on']
const OPERATORS = ['and', 'offset']

export interface Query {
  readonly metrics: readonly string[]
  /** The labels of its result: those of the outermost `by`, or those of its metrics. */
  readonly labels: readonly string[]
}

/** @throws SyntaxError if it is not a query, or uses an unknown metric, label or value */
export function readQuery(text: string): Query {
  const tokens = tokensOf(text)
  const metrics: string[] = []
  const groupings: { word: string; labels: string[] }[] = []
  let depth = 0
  for (let at = 0; at < tokens.length; at++) {
    const word = tokens[at] ?? ''
    if (word === '(') depth++
    if (word === ')' && --depth < 0) throw new SyntaxError(`unmatched ) in ${text}`)
    if (word === '{') throw new SyntaxError(`labels without a metric in ${text}`)
    if (!/^[A-Za-z_]/.test(word) || OPERATORS.includes(word)) continue
    if (GROUPINGS.includes(word)) {
      const end = tokens.indexOf(')', at)
      groupings.push({ word, labels: tokens.slice(at + 2, end).filter(label => label !== ',') })
      at = end
    } else if (FUNCTIONS.includes(word)) {
      if (!['(', 'by'].includes(tokens[at + 1] ?? ''))
        throw new SyntaxError(`${word} without an argument in ${text}`)
    } else {
      metrics.push(word)
      if (tokens[at + 1] === '{') at = readSelector(word, tokens, at + 2)
    }
  }
  if (depth !== 0) throw new SyntaxError(`unmatched ( in ${text}`)
  const known = metrics.flatMap(knownLabels)
  for (const label of groupings.flatMap(({ labels }) => labels)) {
    if (!known.includes(label)) throw new SyntaxError(`no metric has a label ${label} in ${text}`)
  }
  return { metrics, labels: groupings.find(({ word }) => word === 'by')?.labels ?? known }
}

function knownLabels(metric: string): readonly string[] {
  const labels = labelsOf(metric)
  if (labels === undefined) throw new SyntaxError(`there is no metric ${metric}`)
  return labels
}

/** @returns the position of its } */
function readSelector(metric: string, tokens: readonly string[], start: number): number {
  const known = knownLabels(metric)
  let at = start
  while (tokens[at] !== '}') {
    const [label = '', sign = '', value = '', end = ''] = tokens.slice(at, at + 4)
    if (!known.includes(label)) throw new SyntaxError(`${metric} has no label ${label}`)
    if (!['=', '!=', '=~', '!~'].includes(sign)) throw new SyntaxError(`${label} ${sign}`)
    const values = LABEL_VALUES[label]
    const word = /^"(.*)"$/.exec(value)?.[1]
    // A regular expression lists some of the values.
    const words = sign.endsWith('~') ? word?.split('|') : word === undefined ? undefined : [word]
    if (words === undefined || words.some(each => values?.includes(each) === false)) {
      throw new SyntaxError(`${label} is never ${value}`)
    }
    if (end !== ',' && end !== '}') throw new SyntaxError(`${end} after ${label}`)
    at += end === ',' ? 4 : 3
  }
  return at
}

function tokensOf(text: string): string[] {
  const tokens: string[] = []
  const token = new RegExp(TOKEN)
  while (token.lastIndex < text.trimEnd().length) {
    const from = token.lastIndex
    const found = token.exec(text)
    if (found === null) throw new SyntaxError(`not understood: ${text.slice(from)}`)
    const { range, ...others } = found.groups ?? {}
    if (range !== undefined && !RANGE.test(range)) throw new SyntaxError(`[${range}] is not a range`)
    tokens.push(...Object.values(others).filter(word => word !== undefined))
  }
  return tokens
}
