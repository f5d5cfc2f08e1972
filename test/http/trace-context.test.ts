import t from 'tap'
import {
  parseTraceparent,
  serializeTraceparent,
  traceFields,
  withTrace,
} from '../../src/http/trace-context.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'

t.test('parses a traceparent (W3C Trace Context §3.2)', async t => {
  const read = (value: string) => parseTraceparent(['TraceParent', value])
  const parent = { traceId: TRACE, parentId: PARENT }
  t.strictSame(read(`00-${TRACE}-${PARENT}-01`), { ...parent, sampled: true })
  t.strictSame(read(`00-${TRACE}-${PARENT}-00`), { ...parent, sampled: false })
  t.strictSame(read(`00-${TRACE}-${PARENT}-02`), { ...parent, sampled: false }, 'other flags mean nothing')
  t.strictSame(read(`00-${TRACE}-${PARENT}-ff`), { ...parent, sampled: true })
  t.strictSame(read(`01-${TRACE}-${PARENT}-01`), { ...parent, sampled: true }, 'a later version')
  t.strictSame(read(`fe-${TRACE}-${PARENT}-01-more`), { ...parent, sampled: true })
})

t.test('ignores a malformed one (W3C Trace Context §4.3)', async t => {
  for (const value of [
    '',
    `00-${TRACE}-${PARENT}`,
    `00-${TRACE}-${PARENT}-1`,
    `00-${TRACE}-${PARENT}-001`,
    `00-${TRACE}-${PARENT}-01-`,
    `00-${TRACE}-${PARENT}-01-more`,
    `cc-${TRACE}-${PARENT}-01.more`,
    `ff-${TRACE}-${PARENT}-01`,
    `0-${TRACE}-${PARENT}-01`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${TRACE}-${PARENT.toUpperCase()}-01`,
    `00-${TRACE.slice(1)}-${PARENT}-01`,
    `00-${TRACE}0-${PARENT}-01`,
    `00-${TRACE}-${PARENT.slice(1)}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE}-${PARENT}-0g`,
    `00_${TRACE}_${PARENT}_01`,
    ` 00-${TRACE}-${PARENT}-01`,
  ]) {
    t.equal(parseTraceparent(['traceparent', value]), undefined, value)
  }
  const good = `00-${TRACE}-${PARENT}-01`
  t.equal(parseTraceparent(['traceparent', good, 'Traceparent', good]), undefined, 'two of them')
  t.equal(parseTraceparent(['tracestate', 'a=1']), undefined, 'none')
})

t.test('writes version 00 (W3C Trace Context §3.2)', async t => {
  const parent = { traceId: TRACE, parentId: PARENT }
  t.equal(serializeTraceparent({ ...parent, sampled: true }), `00-${TRACE}-${PARENT}-01`)
  t.equal(serializeTraceparent({ ...parent, sampled: false }), `00-${TRACE}-${PARENT}-00`)
})

t.test('finds the fields of a trace among others, unchanged', async t => {
  const fields = ['A', '1', 'TraceParent', 'x', 'traceparents', 'y', 'tracestate', '', 'TRACESTATE', 'b=2']
  t.strictSame(traceFields(fields), ['TraceParent', 'x', 'tracestate', '', 'TRACESTATE', 'b=2'])
})

t.test('replaces traceparent, and keeps tracestate only with its own trace (§3.3)', async t => {
  const fields = ['A', '1', 'TRACEPARENT', 'x', 'TraceState', 'b=2,a=1', 'traceparent', 'y', 'tracestate', '']
  t.strictSame(withTrace(fields, { traceparent: 'p', continues: true }), [
    ...['A', '1', 'TraceState', 'b=2,a=1', 'tracestate', ''],
    ...['traceparent', 'p'],
  ])
  t.strictSame(withTrace(fields, { traceparent: 'p', continues: false }), ['A', '1', 'traceparent', 'p'])
})
