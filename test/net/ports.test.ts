import fc from 'fast-check'
import t from 'tap'
import { parsePorts, portsContain, serializePorts } from '../../src/net/ports.js'

t.test('parses numbers, numbers as text, ranges and any', async t => {
  const table: [(number | string)[], string][] = [
    [[443], '443'],
    [['443'], '443'],
    [[1, 65535], '1, 65535'],
    [['8000-8100'], '8000-8100'],
    [['80-80'], '80'],
    [['any'], 'any'],
    [['any', 443], 'any'],
    [['1-65535'], 'any'],
    [['1-32767', '32768-65535'], 'any'],
    [[], 'no port'],
  ]
  for (const [list, text] of table) t.equal(serializePorts(parsePorts(list)), text, JSON.stringify(list))
})

t.test('sorts ranges, and merges adjacent ones', async t => {
  const table: [(number | string)[], { first: number; last: number }[]][] = [
    [
      [443, 80],
      [
        { first: 80, last: 80 },
        { first: 443, last: 443 },
      ],
    ],
    [[81, 80], [{ first: 80, last: 81 }]],
    [
      [82, 80],
      [
        { first: 80, last: 80 },
        { first: 82, last: 82 },
      ],
    ],
    [['10-20', '15-30', 12], [{ first: 10, last: 30 }]],
    [['10-30', '15-20'], [{ first: 10, last: 30 }]],
    [[443, 443], [{ first: 443, last: 443 }]],
  ]
  for (const [list, ranges] of table) t.same(parsePorts(list), ranges, JSON.stringify(list))
})

t.test('refuses anything that is not a port', async t => {
  const bad = [0, -1, 65536, 1.5, 1e21, Number.NaN, Number.POSITIVE_INFINITY]
  const text = [
    '',
    ' ',
    '0',
    '65536',
    '99999',
    '080',
    '1.5',
    '+1',
    '-80',
    '80-',
    '81-80',
    '0-80',
    '80-65536',
    '80 - 90',
    ' 80',
    '80,81',
    'http',
    'ANY',
    '*',
    '1-2-3',
  ]
  for (const item of [...bad, ...text]) {
    t.throws(
      () => parsePorts([443, item]),
      { name: 'RangeError', message: /expected a port from 1 to 65535/ },
      String(item),
    )
  }
  t.throws(() => parsePorts(['']), { message: /found ""$/ })
  t.throws(() => parsePorts([0]), { message: /found 0$/ })
})

t.test('contains both ends of a range and neither neighbour', async t => {
  const set = parsePorts([443, '8000-8100'])
  for (const port of [443, 8000, 8050, 8100]) t.ok(portsContain(set, port), String(port))
  for (const port of [1, 442, 444, 7999, 8101, 65535]) t.notOk(portsContain(set, port), String(port))
  t.notOk(portsContain(parsePorts([]), 443))
})

t.test('contains the ports of all its items, whatever their order', async t => {
  const port = fc.integer({ min: 1, max: 65535 })
  const range = fc.tuple(port, port).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const)
  fc.assert(
    fc.property(fc.array(range), port, (ranges, probe) => {
      const set = parsePorts(ranges.map(([first, last]) => `${first}-${last}`))
      for (const p of [probe, ...ranges.flatMap(([first, last]) => [first - 1, first, last, last + 1])]) {
        t.equal(
          portsContain(set, p),
          ranges.some(([first, last]) => first <= p && p <= last),
        )
      }
    }),
  )
})
