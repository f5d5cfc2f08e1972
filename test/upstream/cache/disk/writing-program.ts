/** A process that writes, replaces, updates and removes entries until it is killed; a line for each that is kept. */
import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { DiskStore } from '../../../../src/upstream/cache/disk-store.js'
import { StoreFailures } from '../../../../src/upstream/cache/store-failures.js'
import { bytesOf, headOf, keyOf, MIB, put } from '../disk-stores.js'

const [directory = '', name = ''] = process.argv.slice(2)

const store = new DiskStore({
  directory,
  maxBytes: 4 * MIB,
  maxObjectBytes: MIB,
  failures: new StoreFailures({
    log: event => process.stderr.write(`${JSON.stringify(event)}\n`),
    now: () => performance.now(),
  }),
  now: () => performance.now(),
  wallClock: () => Date.now(),
  randomId: randomUUID,
  findMs: 20_000,
})

/** The content tells which one it is: its length, and its first byte. */
async function work(lane: number): Promise<void> {
  for (let i = lane; ; i += 4) {
    const key = keyOf(`/${i % 40}`)
    const length = [10, 5000, 70_000, 200_000][i % 4] as number
    const found = await store.find(key)
    if (i % 7 === 0) store.invalidate(key)
    else if (i % 5 === 0 && found[0] !== undefined) store.update(found[0], headOf(['I', `${i}`]))
    else if ((await put(store, key, bytesOf(length, length), headOf(), found)) !== undefined) {
      process.stdout.write(`${name} ${i}\n`)
    }
  }
}

await Promise.all([0, 1, 2, 3].map(work))
