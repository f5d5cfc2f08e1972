import { statSync, utimesSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { Recency, RESOLUTION_MS } from '../../../src/origin/store/recency.js'

const NOW = 1_700_000_000_000

t.test('a use is recorded a minute after the last recorded one, or if that is in the future', async t => {
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

t.test('a use is recorded in the times of the file, and ignored if the file no longer exists', async t => {
  const folder = t.testdir()
  const file = `${folder}/file`
  writeFileSync(file, '')
  utimesSync(file, 1, 1)
  const recency = new Recency(() => NOW)
  await Promise.all([recency.record(file), recency.record(file), recency.record(`${folder}/none`)])
  t.equal(statSync(file).mtimeMs, NOW)
})
