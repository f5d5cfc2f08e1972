/** The published test suite of JSON Patch (json-patch-test-suite), for the functions and for the store. */
import { createRequire } from 'node:module'
import t from 'tap'
import { ProxyError } from '../../../src/errors.js'
import { applyJsonPatch, parseJsonPatch } from '../../../src/origin/store/json-patch.js'
import type { JsonValue } from '../../../src/origin/store/json-value.js'
import { put, storeServer } from '../../kit/proxies/store-server.js'

interface SuiteCase {
  readonly comment?: string
  readonly doc: JsonValue
  readonly patch: JsonValue
  /** Absent in a case with `test` operations only. */
  readonly expected?: JsonValue
  /** What is wrong with the patch. */
  readonly error?: string
  readonly disabled?: boolean
}

const MAX_BYTES = 1 << 20
const require = createRequire(import.meta.url)

for (const [file, count] of [
  ['spec_tests.json', 16],
  ['tests.json', 75],
] as const) {
  const cases = (require(`json-patch-test-suite/${file}`) as SuiteCase[]).filter(({ disabled }) => !disabled)

  t.test(`${file}, applied by the functions (RFC 6902)`, async t => {
    t.equal(cases.length, count)
    for (const { doc, patch, expected, error, comment } of cases) {
      const work = (): JsonValue => applyJsonPatch(structuredClone(doc), parseJsonPatch(patch), MAX_BYTES)
      const name = comment ?? error ?? JSON.stringify(patch)
      if (error === undefined) t.strictSame(work(), expected === undefined ? doc : expected, name)
      else t.equal(refusal(work), statusOf(error), name)
    }
  })

  t.test(`${file}, applied by the store with PUT, PATCH and GET (RFC 5789 §2)`, async t => {
    const server = await storeServer(t)
    for (const { doc, patch, expected, error, comment } of cases) {
      const name = comment ?? error ?? JSON.stringify(patch)
      await put(server, '/x', bytesOf(doc), 'application/json')
      const fields = ['Content-Type: application/json-patch+json']
      const { status } = await server.request('/x', { method: 'PATCH', fields, body: bytesOf(patch) })
      t.equal(status, error === undefined ? 204 : statusOf(error), name)
      const { body } = await server.request('/x')
      const result = JSON.parse(Buffer.from(body, 'latin1').toString()) as JsonValue
      t.strictSame(result, expected === undefined ? doc : expected, name)
      if (error !== undefined) t.equal(body, bytesOf(doc), `${name}: nothing is changed`)
    }
  })
}

/** Missing or unknown members make a patch document malformed; all other errors are about the target. */
function statusOf(error: string): number {
  return /missing '|Unrecognized op/.test(error) ? 400 : 422
}

function refusal(work: () => JsonValue): number | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    return error instanceof ProxyError ? error.status : undefined
  }
}

/** JSON in UTF-8, with one character for each byte. */
function bytesOf(value: JsonValue): string {
  return Buffer.from(JSON.stringify(value)).toString('latin1')
}
