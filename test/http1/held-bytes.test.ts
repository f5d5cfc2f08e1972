import t from 'tap'
import { HeldBytes } from '../../src/http1/held-bytes.js'

t.test('keeps what it is given, in order', async t => {
  const held = new HeldBytes()
  t.same([held.length, held.all.toString()], [0, ''])
  for (const piece of ['a', '', 'bc', 'd'.repeat(100), 'e']) held.push(Buffer.from(piece))
  t.same([held.length, held.all.toString()], [104, `abc${'d'.repeat(100)}e`])
})

t.test('what was taken out stays as it is', async t => {
  const held = new HeldBytes()
  held.push(Buffer.from('abc'))
  const taken = held.all
  held.push(Buffer.from('d'))
  held.push(Buffer.from('e'))
  t.equal(taken.toString(), 'abc')
})

t.test('bytes that come one at a time are moved each time their number has doubled', async t => {
  const held = new HeldBytes()
  const buffers = new Set<ArrayBufferLike>()
  let places = 0
  let last = -1
  for (let count = 0; count < 32 * 1024; count++) {
    held.push(Uint8Array.of(7))
    const { buffer, byteOffset } = held.all
    if (!buffers.has(buffer) || byteOffset !== last) places += 1
    buffers.add(buffer)
    last = byteOffset
  }
  t.ok(places <= 17, `${places} places`)
})
