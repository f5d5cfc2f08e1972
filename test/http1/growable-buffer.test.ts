import t from 'tap'
import { GrowableBuffer } from '../../src/http1/growable-buffer.js'

t.test('keeps the bytes that were added, in order', async t => {
  const held = new GrowableBuffer()
  t.same([held.length, held.all.toString()], [0, ''])
  for (const piece of ['a', '', 'bc', 'd'.repeat(100), 'e']) held.push(Buffer.from(piece))
  t.same([held.length, held.all.toString()], [104, `abc${'d'.repeat(100)}e`])
})

t.test('a view that was returned does not change', async t => {
  const held = new GrowableBuffer()
  held.push(Buffer.from('abc'))
  const taken = held.all
  held.push(Buffer.from('d'))
  held.push(Buffer.from('e'))
  t.equal(taken.toString(), 'abc')
})

t.test('bytes added one at a time are copied each time their number has doubled', async t => {
  const held = new GrowableBuffer()
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
