import t from 'tap'
import { heuristicLifetimeMs, isHeuristicallyCacheable } from '../../src/cache/heuristics.js'
import { date, NOW, stored } from './messages.js'

const DAY_MS = 86_400_000
const FACTS = { status: 200, isPublic: false, setsCookie: false, dateMs: NOW, lastModifiedMs: NOW - 10_000 }

t.test(
  'the heuristic lifetime is a tenth of the time since Last-Modified, at most a day (RFC 9111 §4.2.2)',
  async t => {
    for (const [unchangedMs, wanted] of [
      [10_000, 1000],
      [0, 0],
      [-10_000, 0],
      [10 * DAY_MS - 10, DAY_MS - 1],
      [10 * DAY_MS, DAY_MS],
      [10 * DAY_MS + 10, DAY_MS],
      [1000 * DAY_MS, DAY_MS],
    ] as const) {
      t.equal(
        heuristicLifetimeMs({ ...FACTS, lastModifiedMs: NOW - unchangedMs }),
        wanted,
        `${unchangedMs} ms`,
      )
    }
    t.equal(heuristicLifetimeMs({ ...FACTS, lastModifiedMs: undefined }), 0)
  },
)

t.test('it requires a status that allows it, or public (RFC 9110 §15.1; RFC 9111 §5.2.2.9)', async t => {
  const allowed = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501]
  for (let status = 200; status < 600; status++) {
    t.equal(isHeuristicallyCacheable(status), allowed.includes(status), `${status}`)
    t.equal(heuristicLifetimeMs({ ...FACTS, status }) > 0, allowed.includes(status), `${status}`)
    t.equal(heuristicLifetimeMs({ ...FACTS, status, isPublic: true }), 1000, `${status} public`)
  }
})

t.test('a response that sets a cookie has only an explicit lifetime (RFC 9111 §4.2.2)', async t => {
  t.equal(heuristicLifetimeMs({ ...FACTS, setsCookie: true, isPublic: true }), 0)
  const fields = ['Last-Modified', date(-1000), 'Date', date()]
  t.equal(stored(fields).lifetimeMs, 100_000)
  t.equal(stored([...fields, 'Set-Cookie', 'a=b']).lifetimeMs, 0)
  t.equal(stored([...fields, 'Set-Cookie', 'a=b', 'Cache-Control', 'max-age=5']).lifetimeMs, 5000)
})
