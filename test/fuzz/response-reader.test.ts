import fc from 'fast-check'
import t from 'tap'
import { isToken } from '../../src/http/token.js'
import {
  GET,
  type ReadResponse,
  type ResponseRun,
  type ResponseTranscript,
  transcribeResponses,
} from '../kit/peers/response-transcript.js'
import { cutAt } from './arbitrary.js'
import { anyResponse, RESPONSES } from './responses.js'

const LIMITS = { headerBytes: 120, headerFields: 4 }
const REQUESTS = [
  GET,
  { method: 'HEAD', upgrade: false },
  { method: 'CONNECT', upgrade: false },
  { method: 'GET', upgrade: true },
]
const ERROR = /^502 (?:http|connection)_[a-z_]+: [\x20-\x7e]+$/
const VALUE = /^(?![\t ])[\t\x20-\x7e\x80-\xff]*(?<![\t ])$/

/** @throws Error that says which invariant is violated */
function check(input: Buffer, pieces: readonly Buffer[], run: ResponseRun): ResponseTranscript {
  const whole = transcribeResponses([input], run)
  for (const pulls of ['all', 'one', 'none'] as const) {
    const cut = transcribeResponses(pieces, { ...run, pulls })
    if (JSON.stringify(cut) !== JSON.stringify(whole)) {
      throw new Error(`cut, pulling ${pulls}: ${JSON.stringify(cut)} is not ${JSON.stringify(whole)}`)
    }
  }
  if (whole.error !== undefined && !ERROR.test(whole.error)) throw new Error(`error ${whole.error}`)
  for (const response of whole.responses) checkResponse(response)
  return whole
}

function checkResponse({ status, fields, length, content, trailers, interim }: ReadResponse): void {
  if (status < 100 || (status < 200 && status !== 101)) throw new Error(`final status ${status}`)
  if (interim.some(code => code < 100 || code > 199 || code === 101))
    throw new Error('invalid interim status')
  for (const list of [fields, trailers ?? []]) {
    list.forEach((text, i) => {
      if (i % 2 === 0 ? !isToken(text) : !VALUE.test(text))
        throw new Error(`bad field ${JSON.stringify(text)}`)
    })
  }
  const names = fields.filter((_, i) => i % 2 === 0).map(name => name.toLowerCase())
  const framed = names.filter(name => name === 'content-length' || name === 'transfer-encoding')
  const hasContent = status !== 204 && status !== 304 && content !== ''
  if (framed.length > 1 && hasContent) throw new Error('two framing fields')
  if (length !== undefined && trailers !== undefined && hasContent && content.length !== length) {
    throw new Error('content does not have its declared length')
  }
}

t.test('the responses that are mutated are valid', async t => {
  for (const input of RESPONSES) {
    t.match(transcribeResponses([input]), { responses: [{ trailers: [] }], error: undefined, buffered: 0 })
  }
})

t.test('any input results in events or a ProxyError of upstream, the same however it is split', async t => {
  const places = fc.array(fc.nat(200), { maxLength: 12 })
  let refused = 0
  let runs = 0
  const property = fc.property(
    anyResponse,
    places,
    fc.array(fc.constantFrom(...REQUESTS), { minLength: 1, maxLength: 3 }),
    fc.boolean(),
    (input, at, requests, ends) => {
      runs += 1
      if (check(input, cutAt(input, at), { requests, limits: LIMITS, ends }).error !== undefined) refused += 1
    },
  )
  t.doesNotThrow(() => fc.assert(property, { numRuns: 10_000 }))
  t.ok(refused > runs / 10 && refused < runs * 0.95, `${refused} of ${runs} refused, neither all nor none`)
})
