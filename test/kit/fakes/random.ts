/** A small generator of pseudo-random numbers (xorshift, 32 bits), and the fuzz inputs that it draws. */
import { CORPUS, FRAGMENTS, type Mutation, mutate } from '../../fuzz/mutation.js'

/** A number from 0 to `below` - 1. */
export type Random = (below: number) => number

/** @param seed any integer; adjacent seeds give unrelated sequences */
export function createRandom(seed: number): Random {
  let state = (Math.imul(seed | 0, 0x9e3779b1) ^ 0x5bd1e995) | 1
  const step = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
  for (let i = 0; i < 4; i++) step()
  return below => step() % below
}

const KINDS = ['flip', 'delete', 'insert', 'duplicate', 'splice'] as const

function drawMutation(random: Random): Mutation {
  const at = random(4096)
  const kind = KINDS[random(KINDS.length)] as Mutation['kind']
  switch (kind) {
    case 'flip':
      return { kind, at, bits: random(2) === 0 ? 1 << random(8) : 1 + random(255) }
    case 'delete':
    case 'duplicate':
      return { kind, at, count: 1 + random(random(4) === 0 ? 64 : 4) }
    case 'insert':
      return { kind, at, fragment: random(FRAGMENTS.length) }
    case 'splice':
      return { kind, at, other: random(CORPUS.length), from: random(4096) }
  }
}

/** Nine in ten are requests with one to four changes; the others consist of fragments, or of random bytes. */
export function drawInput(random: Random): Buffer {
  const choice = random(20)
  if (choice === 0) return Buffer.from(Array.from({ length: random(64) }, () => random(256)))
  if (choice === 1) {
    const parts = Array.from({ length: 1 + random(12) }, () => FRAGMENTS[random(FRAGMENTS.length)] as Buffer)
    return Buffer.concat(parts)
  }
  let input = CORPUS[random(CORPUS.length)] as Buffer
  for (let left = 1 + random(1 + random(4)); left > 0; left--) input = mutate(input, drawMutation(random))
  return input
}

/** The input divided at random, sometimes into single bytes, with empty pieces. */
export function drawPieces(input: Buffer, random: Random): Buffer[] {
  const longest = 1 + random(random(2) === 0 ? 4 : 64)
  const pieces: Buffer[] = []
  for (let at = 0; at < input.length; ) {
    const length = random(longest + 1)
    pieces.push(input.subarray(at, at + length))
    at += length
  }
  return pieces
}
