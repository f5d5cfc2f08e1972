import t from 'tap'
import { parseSize, serializeSize } from '../../src/config/sizes.js'

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

t.test('asks for the unit of a bare number', t => {
  const message = 'expected a size with its unit, such as 16B or 16KiB, found "16"'
  t.throws(() => parseSize('16'), new RangeError(message))
  t.end()
})

t.test('refuses everything else, powers of ten among it', t => {
  for (const text of ['', 'KiB', '-1B', '1.5KiB', '16KB', '16K', '16kib', '16 KiB', '1TiB', '1b', '1KiB\n']) {
    const message = `expected a size such as 512B, 16KiB, 8MiB or 1GiB, found "${text}"`
    t.throws(() => parseSize(text), new RangeError(message), JSON.stringify(text))
  }
  t.end()
})

t.test('writes the largest unit without a remainder', t => {
  t.equal(serializeSize(0), '0B')
  t.equal(serializeSize(1023), '1023B')
  t.equal(serializeSize(1024), '1KiB')
  t.equal(serializeSize(1025), '1025B')
  t.equal(serializeSize(1024 ** 2), '1MiB')
  t.equal(serializeSize(1024 ** 3), '1GiB')
  t.end()
})
