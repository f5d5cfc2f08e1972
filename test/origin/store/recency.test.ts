import { statSync, utimesSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { Recency, RESOLUTION_MS } from '../../../src/origin/store/recency.js'

const NOW = 1_700_000_000_000

t.test('a use is due a minute after the last one that was noted, or when that is in the future', async t => {
  const recency = new Recency(() => NOW)
  for (const [usedMs, due] of [
    [NOW, false],
    [NOW - RESOLUTION_MS, false],
    [NOW - RESOLUTION_MS - 1, true],
    [NOW + RESOLUTION_MS, false],
    [NOW + RESOLUTION_MS + 1, true],
  ] as const) {
    t.equal(recency.isDue(usedMs), due, `${usedMs - NOW}`)
  }
})

t.test('a use is in the times of the file, and one of a file that is gone is nowhere', async t => {
  const folder = t.testdir()
  const file = `${folder}/file`
  writeFileSync(file, '')
  utimesSync(file, 1, 1)
  const recency = new Recency(() => NOW)
  await Promise.all([recency.note(file), recency.note(file), recency.note(`${folder}/none`)])
  t.equal(statSync(file).mtimeMs, NOW)
})
