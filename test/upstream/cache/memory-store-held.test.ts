/** What the store keeps alive, as the collector sees it. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { MemoryStore } from '../../../src/upstream/cache/memory-store.js'

const KIB = 1024

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function held(): number {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

t.test('an entry keeps nothing alive that its texts and its content were cut from', async t => {
  const store = new MemoryStore({ maxBytes: KIB ** 3, maxObjectBytes: KIB ** 2 })
  const before = held()
  for (let i = 0; i < 200; i++) {
    const received = Buffer.alloc(256 * KIB, `${i} `)
    const text = received.toString('latin1')
    const writer = store.create(
      { partition: text.slice(0, 40), uri: text.slice(0, 50) },
      {
        method: 'GET',
        status: 200,
        reason: text.slice(60, 90),
        minor: 1,
        fields: [text.slice(100, 120), text.slice(120, 160)],
        selecting: [text.slice(200, 220), text.slice(220, 260)],
        requestedAt: 1,
        respondedAt: 2,
      },
      undefined,
      [],
    )
    for (let at = 0; at < 10; at++) writer?.write(received.subarray(at * 100, at * 100 + 10))
    writer?.end()
  }
  const kept = held() - before
  // Buffers that are collected are given back a little later; 200 of 256 KiB were received.
  t.ok(kept < 10_000 * KIB, `${kept} bytes for 200 entries`)
  t.equal((await store.stats()).entries, 200)
})
