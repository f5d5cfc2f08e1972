import fc from 'fast-check'
import t from 'tap'
import { LIMITS, transcribe } from '../kit/peers/transcript.js'
import { mutatedRequest, requestModel, style, write } from './arbitrary.js'
import { type NodeMessage, NodeParser } from './node-parser.js'
import { runs } from '../kit/runs.js'

const node = await NodeParser.listen()
t.teardown(() => node.close())

/** The complete messages that our reader finds. */
function readByUs(input: Buffer): NodeMessage[] {
  const messages: NodeMessage[] = []
  for (const { framing: _, trailers, ...message } of transcribe([input], LIMITS).messages) {
    if (trailers !== undefined) messages.push({ ...message, trailers })
  }
  return messages
}

t.test("Node's parser reads valid requests in the same way (RFC 9112 §2)", async t => {
  // Node refuses a tab after Content-Length, which RFC 9110 §5.5 allows.
  const nodeStyle = style.map(as => ({ ...as, after: as.after.replaceAll('\t', ' ') }))
  const requests = fc.array(fc.tuple(requestModel, nodeStyle), { minLength: 1, maxLength: 4 })
  const property = fc.asyncProperty(requests, async written => {
    const input = Buffer.from(written.map(([model, as]) => write(model, as)).join(''), 'latin1')
    const ours = readByUs(input)
    const theirs = await node.read(input)
    if (ours.length !== written.length || fc.stringify(ours) !== fc.stringify(theirs)) {
      throw new Error(`${fc.stringify(ours)} is not ${fc.stringify(theirs)}`)
    }
  })
  await t.resolves(fc.assert(property, { numRuns: runs(1000) }))
})

t.test(
  "if both our parser and Node's accept a damaged request, they read it in the same way (RFC 9112 §11.2)",
  async t => {
    let compared = 0
    const property = fc.asyncProperty(mutatedRequest, async input => {
      const ours = readByUs(input)
      if (ours.length === 0) return
      const theirs = await node.read(input)
      const both = Math.min(ours.length, theirs.length)
      compared += both
      if (fc.stringify(ours.slice(0, both)) !== fc.stringify(theirs.slice(0, both))) {
        throw new Error(`${fc.stringify(ours)} is not ${fc.stringify(theirs)}`)
      }
    })
    await t.resolves(fc.assert(property, { numRuns: runs(5000) }))
    t.ok(compared > runs(50), `${compared} messages compared`)
  },
)
