import t from 'tap'
import { createLogger } from '../../src/observe/log.js'
import { SpanLosses } from '../../src/tracing/span-losses.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'

t.test('a loss is told at once, those behind it once a minute, and what is left at the end', async t => {
  const told: unknown[] = []
  const logger = createLogger('info', {
    write: line => {
      const { level, event, spans, error } = JSON.parse(line) as Record<string, unknown>
      told.push([level, event, spans, error])
    },
  })
  const clock = new ManualClock()
  const losses = new SpanLosses(logger, clock.now)
  losses.tell()
  t.same(told, [], 'nothing is lost')
  losses.add(3, 'a')
  t.same(told.splice(0), [['warn', 'spans_lost', 3, 'a']])
  losses.add(4, 'b')
  clock.advance(59_999)
  losses.add(5, 'c')
  t.same(told, [])
  clock.advance(1)
  losses.add(6, 'b')
  t.same(
    told.splice(0),
    [
      ['warn', 'spans_lost', 10, 'b'],
      ['warn', 'spans_lost', 5, 'c'],
    ],
    'each reason with its own number',
  )
  losses.add(1, 'e')
  losses.tell()
  losses.tell()
  t.same(told, [['warn', 'spans_lost', 1, 'e']])
})
