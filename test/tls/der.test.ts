import t from 'tap'
import { canonicalName, integer, members, parseTime, read, TAG } from '../../src/tls/der.js'

/** An element with this content, which is less than 128 bytes. */
const der = (tag: number, ...content: (Uint8Array | string)[]): Buffer => {
  const bytes = Buffer.concat(
    content.map(part => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)),
  )
  return Buffer.concat([Buffer.from([tag, bytes.length]), bytes])
}
const COMMON_NAME = der(0x06, '\x55\x04\x03')
const nameOf = (tag: number, value: Uint8Array | string, type = COMMON_NAME): string =>
  canonicalName(read(der(TAG.sequence, der(TAG.set, der(TAG.sequence, type, der(tag, value))))))

t.test('lengths are one byte, or as many as that byte says', async t => {
  for (const [hex, length] of [
    ['0400', 0],
    ['0401ff', 1],
    [`047f${'00'.repeat(127)}`, 127],
    [`048180${'00'.repeat(128)}`, 128],
    [`04820100${'00'.repeat(256)}`, 256],
    [`0484000000ff${'00'.repeat(255)}`, 255],
  ] as const) {
    t.equal(read(Buffer.from(`${hex}ffff`, 'hex')).content.length, length, hex.slice(0, 12))
    t.throws(() => read(Buffer.from(hex, 'hex').subarray(0, -1)), RangeError)
  }
  for (const hex of ['', '04', '0480', '0485', '04850000000001']) {
    t.throws(() => read(Buffer.from(hex, 'hex')), RangeError, hex)
  }
  t.equal(read(read(Buffer.from('a003020105', 'hex')).content).tag, TAG.integer)
})

t.test('members follow each other without a gap', async t => {
  const found = members(Buffer.from('02010502010604', 'hex').subarray(0, 6))
  t.same(found.map(integer), ['05', '06'])
  t.throws(() => members(Buffer.from('02010502010604', 'hex')), RangeError)
})

t.test('names are compared without the differences that do not matter (RFC 5280 §7.1)', async t => {
  const same = [
    nameOf(TAG.utf8, 'Example CA'),
    nameOf(TAG.printable, 'Example CA'),
    nameOf(TAG.ia5, ' example  ca '),
    nameOf(TAG.teletex, 'EXAMPLE CA'),
    nameOf(TAG.bmp, Buffer.from('Example CA', 'utf16le').swap16()),
  ]
  t.equal(new Set(same).size, 1)
  const others = [
    nameOf(TAG.utf8, 'ExampleCA'),
    nameOf(TAG.utf8, 'Example CA', der(0x06, '\x55\x04\x0a')),
    nameOf(TAG.integer, 'Example CA'),
    canonicalName(read(der(TAG.sequence))),
  ]
  t.equal(new Set([...same, ...others]).size, 5)
  t.equal(nameOf(TAG.utf8, Buffer.from('Ä')), nameOf(TAG.teletex, '\xe4'))
  for (const hex of ['3000', '3002', '0500', '30023100', '300431023000', '3006310430020500']) {
    const element = () => canonicalName(read(Buffer.from(hex, 'hex')))
    if (hex === '3000' || hex === '30023100') t.doesNotThrow(element, hex)
    else t.throws(element, RangeError, hex)
  }
})

t.test('a time has two or four digits for the year (RFC 5280 §5.1.2.4)', async t => {
  const utc = (text: string) => parseTime(read(der(TAG.utcTime, text)))
  const generalized = (text: string) => parseTime(read(der(TAG.generalizedTime, text)))
  t.equal(utc('491231235959Z'), Date.UTC(2049, 11, 31, 23, 59, 59))
  t.equal(utc('500101000000Z'), Date.UTC(1950, 0, 1))
  t.equal(generalized('20500101000000Z'), Date.UTC(2050, 0, 1))
  for (const text of ['', '500101000000', '5001010000Z', '501301000000Z', '500101000000+0100', 'x']) {
    t.throws(() => utc(text), RangeError, text)
    t.throws(() => generalized(text), RangeError, text)
  }
  t.throws(() => utc('20500101000000Z'), RangeError)
  t.throws(() => generalized('500101000000Z'), RangeError)
  t.throws(() => parseTime(read(der(TAG.integer, '500101000000Z'))), RangeError)
  t.throws(() => parseTime(undefined), RangeError)
})
