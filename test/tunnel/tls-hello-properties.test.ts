/** Damaged ClientHellos, and random bytes. */
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { ClientHelloReader, type HelloVerdict } from '../../src/tunnel/tls-hello.js'
import { cutAt } from '../fuzz/arbitrary.js'
import {
  BEFORE,
  BEHIND,
  clientHello,
  handshake,
  helloBody,
  nameEntry,
  records,
  serverNameExtension,
  vector,
} from '../kit/peers/client-hello.js'
import { runs } from '../kit/runs.js'

function readIn(pieces: readonly Uint8Array[]): { verdict: HelloVerdict | undefined; held: Buffer } {
  const reader = new ClientHelloReader()
  let verdict: HelloVerdict | undefined
  for (const piece of pieces) {
    verdict = reader.push(piece)
    if (verdict !== undefined) break
  }
  return { verdict, held: reader.held }
}

/** Throws unless the verdict is the same however the bytes are split, and contains only what is in the bytes. */
function checkHello(bytes: Buffer, places: readonly number[]): HelloVerdict | undefined {
  const { verdict } = readIn([bytes])
  const pieces = readIn(cutAt(bytes, places))
  if (JSON.stringify(pieces.verdict) !== JSON.stringify(verdict)) throw new Error('cuts make a difference')
  if (!bytes.subarray(0, pieces.held.length).equals(pieces.held)) throw new Error('bytes were changed')
  if (verdict?.kind === 'hello' && verdict.serverName !== undefined) {
    // If it spans several records, the name may contain a record header in between, but all of its bytes are there, in order.
    let at = -1
    for (const byte of Buffer.from(verdict.serverName, 'latin1')) {
      at = bytes.indexOf(byte, at + 1)
      if (at === -1) throw new Error('a name that was not sent')
    }
  }
  return verdict
}

const name = fc.string({ unit: fc.constantFrom(...'abc.-_\0\xfc'), minLength: 1, maxLength: 40 })
const hello = fc.tuple(name, fc.integer({ min: 1, max: 300 })).map(([text, fragmentBytes]) => {
  const named = serverNameExtension(nameEntry(text))
  const message = handshake(helloBody({ extensions: vector(2, BEFORE, named, BEHIND) }))
  return { name: text, bytes: records(message, fragmentBytes) }
})
const places = fc.array(fc.nat(300), { maxLength: 20 })

type Change = (bytes: Buffer) => Buffer
const position = fc.nat(1000)
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.tuple(position, fc.integer({ min: 1, max: 255 })).map(([at, bits]) => (bytes: Buffer) => {
    const changed = Buffer.from(bytes)
    const index = at % changed.length
    changed[index] = (changed[index] ?? 0) ^ bits
    return changed
  }),
  fc.tuple(position, fc.integer({ min: 1, max: 20 })).map(([at, count]) => (bytes: Buffer) => {
    const begin = at % bytes.length
    return Buffer.concat([bytes.subarray(0, begin), bytes.subarray(begin + count)])
  }),
  fc.tuple(position, fc.uint8Array({ maxLength: 20 })).map(([at, more]) => (bytes: Buffer) => {
    const begin = at % bytes.length
    return Buffer.concat([bytes.subarray(0, begin), more, bytes.subarray(begin)])
  }),
)

function holds<T>(t: Test, property: fc.IProperty<T>, numRuns: number): void {
  t.doesNotThrow(() => fc.assert(property, { numRuns: runs(numRuns) }))
}

t.test('finds the name in any ClientHello, however it and its records are split (RFC 8446 §5.1)', async t => {
  const property = fc.property(hello, places, (sent, at) => {
    const verdict = checkHello(sent.bytes, at)
    return verdict?.kind === 'hello' && verdict.serverName === sent.name
  })
  holds(t, property, 3000)
})

t.test('a damaged ClientHello has the same verdict, or none, however it is split', async t => {
  const seen = new Set<string>()
  const changes = fc.array(change, { minLength: 1, maxLength: 4 })
  const property = fc.property(hello, changes, places, (sent, made, at) => {
    const bytes = made.reduce((all, apply) => (all.length === 0 ? all : apply(all)), sent.bytes)
    seen.add(checkHello(bytes, at)?.kind ?? 'more')
  })
  holds(t, property, 20_000)
  t.same([...seen].sort(), ['fault', 'hello', 'more'], 'the changes lead everywhere')
})

t.test(
  'any bytes after any beginning of a ClientHello have the same verdict, or none, however they are split',
  async t => {
    const beginning = clientHello('a.test')
    const input = fc
      .tuple(fc.nat(beginning.length), fc.uint8Array({ maxLength: 300 }))
      .map(([length, rest]) => Buffer.concat([beginning.subarray(0, length), rest]))
    holds(
      t,
      fc.property(input, places, (bytes, at) => void checkHello(bytes, at)),
      20_000,
    )
  },
)
