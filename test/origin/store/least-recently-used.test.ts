import fc from 'fast-check'
import t from 'tap'
import { LeastRecentlyUsed } from '../../../src/origin/store/least-recently-used.js'
import { runs } from '../../kit/runs.js'

t.test(
  'keeps the least recently used candidates in order, regardless of the order in which they are added',
  async t => {
    const property = fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 50 })),
      fc.integer({ min: 1, max: 20 }),
      async (times, most) => {
        const oldest = new LeastRecentlyUsed(most)
        for (const [index, usedMs] of times.entries()) oldest.add({ digest: `${index}`, usedMs, bytes: 1 })
        const taken = await oldest.take()
        t.strictSame(
          taken.map(({ usedMs }) => usedMs),
          [...times].sort((a, b) => a - b).slice(0, most),
        )
        if (new Set(taken.map(({ digest }) => digest)).size !== taken.length) throw new Error('one twice')
        if ((await oldest.take()).length > 0) throw new Error('not taken out')
      },
    )
    await fc.assert(property, { numRuns: runs(100) })
  },
)
