import t from 'tap'
import { parseDuration, serializeDuration } from '../../src/config/durations.js'

t.test('reads a whole number and a unit as milliseconds', t => {
  for (const [text, ms] of [
    ['0s', 0],
    ['1ms', 1],
    ['250ms', 250],
    ['3s', 3000],
    ['10m', 600_000],
    ['24h', 86_400_000],
    ['1d', 86_400_000],
    ['007s', 7000],
    ['999999999ms', 999_999_999],
  ] as const) {
    t.equal(parseDuration(text), ms, text)
  }
  t.end()
})

t.test('asks for the unit of a bare number', t => {
  const message = 'expected a duration with its unit, such as 30s or 30ms, found "30"'
  t.throws(() => parseDuration('30'), new RangeError(message))
  t.end()
})

t.test('refuses everything else', t => {
  for (const text of [
    '',
    's',
    '-1s',
    '+1s',
    '1.5s',
    '1e3s',
    ' 1s',
    '1s ',
    '1 s',
    '1S',
    '1w',
    '1m30s',
    '1s\n',
  ]) {
    const message = `expected a duration such as 250ms, 3s, 10m, 24h or 1d, found "${text}"`
    t.throws(() => parseDuration(text), new RangeError(message), JSON.stringify(text))
  }
  t.throws(() => parseDuration('1000000000ms'), RangeError, 'ten digits')
  t.end()
})

t.test('writes the largest unit without a remainder', t => {
  for (const text of ['0s', '1ms', '1500ms', '59s', '61s', '60m', '25h', '24d']) {
    t.equal(parseDuration(serializeDuration(parseDuration(text))), parseDuration(text), text)
  }
  t.equal(serializeDuration(1500), '1500ms')
  t.equal(serializeDuration(3_600_000), '1h')
  t.equal(serializeDuration(86_400_000), '1d')
  t.end()
})
