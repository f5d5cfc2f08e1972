import t from 'tap'
import { parseDuration, parseSize, serializeDuration, serializeSize } from '../../src/config/quantities.js'

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

t.test('asks for the unit of a duration that is a bare number', t => {
  const message = 'expected a duration with its unit, such as 30s or 30ms, found "30"'
  t.throws(() => parseDuration('30'), new RangeError(message))
  t.end()
})

t.test('refuses every other duration', t => {
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

t.test('writes durations in the largest unit without a remainder', t => {
  for (const text of ['0s', '1ms', '1500ms', '59s', '61s', '60m', '25h', '24d']) {
    t.equal(parseDuration(serializeDuration(parseDuration(text))), parseDuration(text), text)
  }
  t.equal(serializeDuration(1500), '1500ms')
  t.equal(serializeDuration(3_600_000), '1h')
  t.equal(serializeDuration(86_400_000), '1d')
  t.end()
})

t.test('reads a whole number and a binary unit as bytes', t => {
  for (const [text, bytes] of [
    ['0B', 0],
    ['512B', 512],
    ['16KiB', 16_384],
    ['8MiB', 8_388_608],
    ['1GiB', 1_073_741_824],
  ] as const) {
    t.equal(parseSize(text), bytes, text)
  }
  t.end()
})

t.test('asks for the unit of a size that is a bare number', t => {
  const message = 'expected a size with its unit, such as 16B or 16KiB, found "16"'
  t.throws(() => parseSize('16'), new RangeError(message))
  t.end()
})

t.test('refuses every other size, powers of ten among them', t => {
  for (const text of ['', 'KiB', '-1B', '1.5KiB', '16KB', '16K', '16kib', '16 KiB', '1TiB', '1b', '1KiB\n']) {
    const message = `expected a size such as 512B, 16KiB, 8MiB or 1GiB, found "${text}"`
    t.throws(() => parseSize(text), new RangeError(message), JSON.stringify(text))
  }
  t.end()
})

t.test('writes sizes in the largest unit without a remainder', t => {
  t.equal(serializeSize(0), '0B')
  t.equal(serializeSize(1023), '1023B')
  t.equal(serializeSize(1024), '1KiB')
  t.equal(serializeSize(1025), '1025B')
  t.equal(serializeSize(1024 ** 2), '1MiB')
  t.equal(serializeSize(1024 ** 3), '1GiB')
  t.end()
})
