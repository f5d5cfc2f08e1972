import fc from 'fast-check'
import t, { type Test } from 'tap'
import { LIMITS, transcribe } from '../kit/peers/transcript.js'
import {
  anyInput,
  contentOf,
  cutAt,
  fieldsOf,
  mutatedRequest,
  requestModel,
  style,
  trailersOf,
  write,
} from './arbitrary.js'
import { checkReader } from './invariants.js'
import { CORPUS } from './mutation.js'
import { createRandom, drawInput, drawPieces } from '../kit/fakes/random.js'
import { runs } from '../kit/runs.js'

const places = fc.array(fc.nat(300), { maxLength: 12 })

/** Fails with the smallest counterexample, and the seed to find it again. */
function holds<T>(t: Test, property: fc.IProperty<T>, numRuns: number): void {
  t.doesNotThrow(() => fc.assert(property, { numRuns: runs(numRuns) }))
}

t.test('the requests that are mutated are valid', async t => {
  for (const input of CORPUS) t.match(transcribe([input]), { messages: [{}], error: undefined, buffered: 0 })
})

t.test('any input results in events or a ProxyError, the same however it is split', async t => {
  holds(
    t,
    fc.property(anyInput, places, (input, at) => {
      checkReader(input, cutAt(input, at))
    }),
    20_000,
  )
})

t.test('the same is true with realistic limits', async t => {
  holds(
    t,
    fc.property(mutatedRequest, places, (input, at) => {
      checkReader(input, cutAt(input, at), LIMITS)
    }),
    5000,
  )
})

t.test('the beginning of the long campaign', async t => {
  let refused = 0
  const inputs = runs(50_000)
  for (let seed = 0; seed < inputs; seed++) {
    const random = createRandom(seed)
    const input = drawInput(random)
    if (checkReader(input, drawPieces(input, random)).error !== undefined) refused++
  }
  t.ok(
    refused > inputs / 5 && refused < (inputs * 4) / 5,
    `${refused} of ${inputs} refused, neither all nor none`,
  )
})

t.test('valid requests in sequence are read correctly (RFC 9112 §2)', async t => {
  const requests = fc.array(fc.tuple(requestModel, style), { minLength: 1, maxLength: 4 })
  holds(
    t,
    fc.property(requests, places, (written, at) => {
      const input = Buffer.from(written.map(([model, as]) => write(model, as)).join(''), 'latin1')
      const { messages, error, buffered } = transcribe(cutAt(input, at))
      const read = messages.map(({ framing: _, ...message }) => message)
      const meant = written.map(([model, as]) => ({
        method: model.method,
        target: model.target,
        minor: model.minor,
        fields: fieldsOf(model, as),
        content: contentOf(model),
        trailers: trailersOf(model),
      }))
      return error === undefined && buffered === 0 && fc.stringify(read) === fc.stringify(meant)
    }),
    3000,
  )
})
