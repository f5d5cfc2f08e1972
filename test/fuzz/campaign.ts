/**
 * A long fuzz run of the request reader: `node .build/test/fuzz/campaign.js [inputs] [seed]`.
 *
 * Each input depends only on the seed and its number. For the first input that violates an invariant, the seed, the number
 * and the bytes are printed, and the exit code is 1.
 */
import { checkReader } from './invariants.js'
import { createRandom, drawInput, drawPieces } from '../kit/fakes/random.js'

const inputs = Number(process.argv[2] ?? 1_000_000)
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000_000)
const started = process.hrtime.bigint()
let bytes = 0
let messages = 0
const ends = new Map<string, number>()

/** Runs input number `index`. @returns false if it violated an invariant */
function run(index: number): boolean {
  const random = createRandom(seed + index)
  const input = drawInput(random)
  const pieces = drawPieces(input, random)
  try {
    const transcript = checkReader(input, pieces)
    const end = transcript.error?.replace(/ .*?:/, '') ?? (transcript.inHead ? 'inside a head' : 'no error')
    ends.set(end, (ends.get(end) ?? 0) + 1)
    bytes += input.length
    messages += transcript.messages.length
    return true
  } catch (error) {
    const cuts = pieces.map(piece => piece.length).join(' ')
    console.error(`seed ${seed}, input ${index}, pieces ${cuts}\n${input.toString('hex')}`)
    console.error(error)
    return false
  }
}

let done = 0
while (done < inputs && run(done)) done++
const seconds = Number(process.hrtime.bigint() - started) / 1e9
console.log(`seed ${seed}: ${done} inputs, ${bytes} bytes, ${messages} messages in ${seconds.toFixed(1)} s`)
for (const [end, count] of [...ends].sort((a, b) => b[1] - a[1]))
  console.log(`${String(count).padStart(9)}  ${end}`)
if (done < inputs) process.exitCode = 1
