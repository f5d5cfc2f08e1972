/** Arbitraries for fast-check: inputs that are almost requests, and valid requests. */
import fc from 'fast-check'
import { CORPUS, FRAGMENTS, type Mutation, mutate } from './mutation.js'

const position = fc.nat(400)
const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: position, bits: fc.integer({ min: 1, max: 255 }) }),
  fc.record({ kind: fc.constant('delete' as const), at: position, count: fc.integer({ min: 1, max: 64 }) }),
  fc.record({ kind: fc.constant('insert' as const), at: position, fragment: fc.nat(FRAGMENTS.length - 1) }),
  fc.record({
    kind: fc.constant('duplicate' as const),
    at: position,
    count: fc.integer({ min: 1, max: 64 }),
  }),
  fc.record({
    kind: fc.constant('splice' as const),
    at: position,
    other: fc.nat(CORPUS.length - 1),
    from: position,
  }),
)

/** A request of the corpus with a few changes. */
export const mutatedRequest: fc.Arbitrary<Buffer> = fc
  .tuple(fc.constantFrom(...CORPUS), fc.array(mutation, { minLength: 1, maxLength: 5 }))
  .map(([base, mutations]) => mutations.reduce(mutate, base))

/** An input of random bytes, of fragments of the grammar, or one that is almost a request. */
export const anyInput: fc.Arbitrary<Buffer> = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes)),
  fc.array(fc.constantFrom(...FRAGMENTS), { maxLength: 20 }).map(parts => Buffer.concat(parts)),
  mutatedRequest,
)

/** Splits bytes at the given positions, as far as those exist. */
export function cutAt(input: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...places.filter(place => place < input.length), input.length].sort((a, b) => a - b)
  return ends.map((end, i) => input.subarray(ends[i - 1] ?? 0, end))
}

/** The meaning of a valid request, independent of its notation. */
export interface RequestModel {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  /** The fields except those for framing, including Host. */
  readonly fields: readonly (readonly [string, string])[]
  readonly body:
    | { readonly kind: 'none' }
    | { readonly kind: 'length'; readonly content: string }
    | {
        readonly kind: 'chunked'
        readonly chunks: readonly (readonly [content: string, extension: string])[]
        readonly lastExtension: string
        readonly trailers: readonly (readonly [string, string])[]
      }
}

const chars = (text: string) => fc.constantFrom(...text)
const LETTERS = 'abcXYZ019-_~'
const OCTETS = String.fromCharCode(...Array(256).keys())
const VISIBLE = String.fromCharCode(...Array.from({ length: 94 }, (_, i) => 0x21 + i))
const VALUE_CHARS = `${VISIBLE}${VISIBLE} \t\x80\xa0\xff`

const fieldName = fc
  .string({ unit: chars(`${LETTERS}!#$%&'*+.^\`|`), minLength: 1, maxLength: 10 })
  .map(name => `X${name}`)
const fieldValue = fc
  .string({ unit: chars(VALUE_CHARS), maxLength: 30 })
  .map(value => value.replace(/^[ \t]+|[ \t]+$/g, ''))
const field = fc.tuple(fieldName, fieldValue)
const content = fc.string({ unit: chars(OCTETS), maxLength: 60 })
const extension = fc.oneof(
  fc.constant(''),
  fc.constantFrom(';a', ';a=b', ';a=b;c', ';name="quoted value"', ';a="b";c="d"'),
)
const pathChars = fc.string({ unit: chars(VISIBLE.replace('#', '')), maxLength: 20 })
const target = fc.oneof(
  pathChars.map(path => `/${path}`),
  pathChars.map(path => `http://h.example:8080/${path}`),
)

/** A valid request that Node's parser also accepts: a method that it knows, no field that it acts upon. */
export const requestModel: fc.Arbitrary<RequestModel> = fc
  .record({
    method: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PATCH'),
    target,
    minor: fc.constant(1 as const),
    fields: fc.array(field, { maxLength: 8 }),
    host: fc.constantFrom('a', 'h.example:8080', '[::1]:80'),
    body: fc.oneof(
      fc.record({ kind: fc.constant('none' as const) }),
      fc.record({ kind: fc.constant('length' as const), content }),
      fc.record({
        kind: fc.constant('chunked' as const),
        chunks: fc.array(
          fc.tuple(
            content.filter(text => text !== ''),
            extension,
          ),
          { maxLength: 4 },
        ),
        lastExtension: extension,
        trailers: fc.array(field, { maxLength: 3 }),
      }),
    ),
  })
  .map(({ host, fields, ...model }) => ({ ...model, fields: [['Host', host], ...fields] }))

/** The notation of the parts that can be written in several ways. */
export interface Style {
  /** White space around field values. */
  readonly before: string
  readonly after: string
  readonly framingFirst: boolean
  readonly upperHex: boolean
  readonly sizeDigits: number
}

const ows = fc.constantFrom('', ' ', '\t', ' \t ')
export const style: fc.Arbitrary<Style> = fc.record({
  before: ows,
  after: ows,
  framingFirst: fc.boolean(),
  upperHex: fc.boolean(),
  sizeDigits: fc.integer({ min: 1, max: 6 }),
})

/** The field lines in the order in which they are sent, including those for framing. */
export function fieldsOf(model: RequestModel, { framingFirst }: Style): string[] {
  const framing: (readonly [string, string])[] = []
  if (model.body.kind === 'length') framing.push(['Content-Length', String(model.body.content.length)])
  if (model.body.kind === 'chunked') framing.push(['Transfer-Encoding', 'chunked'])
  return (framingFirst ? [...framing, ...model.fields] : [...model.fields, ...framing]).flat()
}

/** The request in latin1. */
export function write(model: RequestModel, style: Style): string {
  const lines = (fields: readonly string[]) => {
    let text = ''
    for (let i = 0; i < fields.length; i += 2)
      text += `${fields[i]}:${style.before}${fields[i + 1]}${style.after}\r\n`
    return text
  }
  const size = (bytes: number) => {
    const digits = bytes.toString(16).padStart(style.sizeDigits, '0')
    return style.upperHex ? digits.toUpperCase() : digits
  }
  const head = `${model.method} ${model.target} HTTP/1.${model.minor}\r\n${lines(fieldsOf(model, style))}\r\n`
  switch (model.body.kind) {
    case 'none':
      return head
    case 'length':
      return head + model.body.content
    case 'chunked': {
      const chunks = model.body.chunks.map(
        ([text, extension]) => `${size(text.length)}${extension}\r\n${text}\r\n`,
      )
      return `${head}${chunks.join('')}${size(0)}${model.body.lastExtension}\r\n${lines(model.body.trailers.flat())}\r\n`
    }
  }
}

export function contentOf({ body }: RequestModel): string {
  if (body.kind === 'chunked') return body.chunks.map(([text]) => text).join('')
  return body.kind === 'length' ? body.content : ''
}

export function trailersOf({ body }: RequestModel): string[] {
  return body.kind === 'chunked' ? body.trailers.flat() : []
}
