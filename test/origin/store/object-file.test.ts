import { readdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import {
  type ObjectMetadata,
  openObject,
  serializeTrailer,
  startDigest,
  validatorsOf,
} from '../../../src/origin/store/object-file.js'

/** A file with this content and its trailer. */
function fileOf(content: Buffer, path = '/a'): { bytes: Buffer; metadata: ObjectMetadata } {
  const metadata = {
    path,
    fields: { contentType: 'text/plain' },
    etag: 'e',
    modifiedMs: 7,
    length: content.length,
  }
  return { bytes: Buffer.concat([content, serializeTrailer(metadata)]), metadata }
}

/** Content whose file has exactly this many bytes. */
function contentOfFile(size: number): Buffer {
  for (let length = size; length >= 0; length--) {
    const content = Buffer.alloc(length, Buffer.from(Array.from({ length: 251 }, (_, i) => i)))
    if (fileOf(content).bytes.length === size) return content
  }
  throw new Error(`no content makes a file of ${size} bytes`)
}

const openFiles = () => readdirSync('/proc/self/fd').length

t.test('a version is read completely, whatever its length', async t => {
  const file = join(t.testdir(), 'object')
  const short = 16 * 1024
  for (const size of [200, 2047, 2048, 2049, short - 1, short, short + 1, 3 * short]) {
    const content = contentOfFile(size)
    const { bytes, metadata } = fileOf(content)
    await writeFile(file, bytes)
    const before = openFiles()
    const object = await openObject(file, NO_DESCRIPTOR_KEPT)
    if (object === undefined) throw new Error('nothing is there')
    t.same(object.metadata, metadata)
    t.equal(object.size, size)
    t.equal(object.content !== undefined, size < short, `${size} bytes`)
    if (object.content !== undefined) t.ok(object.content.equals(content))
    const { length } = content
    for (const [at, asked, given] of [
      [0, 0, 0],
      [0, 1, 1],
      [1, length - 1, length - 1],
      [1, length, length - 1],
      [length - 1, 1, 1],
      [length, 1, 0],
      [length + 1, 1, 0],
    ] as const) {
      const read = await object.read(at, asked)
      t.equal(read.length, given, `${asked} from ${at} of ${length}`)
      t.ok(read.equals(content.subarray(at, at + asked)))
    }
    await object.close()
    t.equal(openFiles(), before, 'it is closed')
  }
})

t.test('a trailer may be longer than the first read of a long file', async t => {
  const file = join(t.testdir(), 'object')
  const path = `/${'x'.repeat(3000)}`
  const { bytes, metadata } = fileOf(contentOfFile(100_000), path)
  await writeFile(file, bytes)
  const object = await openObject(file, NO_DESCRIPTOR_KEPT)
  t.same(object?.metadata, metadata)
  await object?.close()
})

t.test('a file that is not a complete version is an error, and is closed', async t => {
  const file = join(t.testdir(), 'object')
  const short = fileOf(Buffer.from('content')).bytes
  const long = fileOf(contentOfFile(40_000)).bytes
  const before = openFiles()
  for (const bytes of [
    Buffer.alloc(0),
    Buffer.from('sluice1\n'),
    Buffer.from('ffffffffsluice1\n'),
    Buffer.from('0000000zsluice1\n'),
    short.subarray(1),
    short.subarray(0, -1),
    Buffer.concat([short, Buffer.from('x')]),
    Buffer.from(short.toString('latin1').replace('sluice1', 'sluice2'), 'latin1'),
    Buffer.from('{}ffffffffsluice1\n'),
    Buffer.from('{}........sluice1\n'),
    Buffer.from('{"length":0}0000000csluice1\n'),
    long.subarray(1),
    long.subarray(0, -1),
    Buffer.concat([Buffer.from('x'), long]),
  ]) {
    await writeFile(file, bytes)
    await t.rejects(
      openObject(file, NO_DESCRIPTOR_KEPT),
      { name: 'ProxyError', status: 500, reason: 'store_damaged' },
      JSON.stringify(bytes.toString('latin1', 0, 40)),
    )
  }
  await t.rejects(
    openObject(join(file, '..'), NO_DESCRIPTOR_KEPT),
    { name: 'ProxyError', reason: 'store_damaged' },
    'a folder',
  )
  await t.rejects(
    openObject(join(file, 'below'), NO_DESCRIPTOR_KEPT),
    { code: 'ENOTDIR' },
    'not known to be damaged',
  )
  t.equal(await openObject(join(file, '../missing'), NO_DESCRIPTOR_KEPT), undefined)
  t.equal(openFiles(), before)
})

t.test('a trailer may contain the longest name, and bytes that take two in UTF-8', async t => {
  const file = join(t.testdir(), 'object')
  for (const path of ['/a', `/${'x'.repeat(8191)}`, `/${'x'.repeat(1900)}`]) {
    const content = Buffer.from('content')
    const fields = { contentType: `text/a; x="${'\u00e9'.repeat(20)}"` }
    const metadata = { ...fileOf(content, path).metadata, fields }
    await writeFile(file, Buffer.concat([content, serializeTrailer(metadata)]))
    const object = await openObject(file, NO_DESCRIPTOR_KEPT)
    t.same(object?.metadata, metadata)
    t.ok((await object?.read(0, 7))?.equals(content))
    await object?.close()
  }
})

t.test('the entity tag covers fields and content, and is strong (RFC 9110 §8.8.3.3)', async t => {
  const tags = [{}, { contentType: 'a' }, { contentLanguage: 'a' }, { contentEncoding: 'a' }].map(fields =>
    startDigest(fields).update('content').digest('hex'),
  )
  t.equal(new Set(tags).size, 4)
  t.equal(startDigest({}).update('content').digest('hex'), tags[0])
  const { metadata } = fileOf(Buffer.from('content'))
  t.same(validatorsOf(metadata), { etag: { weak: false, opaque: 'e' }, lastModifiedMs: 7 })
})

t.test(
  'a file that would take a reserved descriptor is not opened, and a missing one is undefined',
  async t => {
    const file = join(t.testdir(), 'object')
    await writeFile(file, fileOf(contentOfFile(200)).bytes)
    const before = openFiles()
    await t.rejects(openObject(file, { isKept: () => true }), { code: 'EMFILE' })
    t.equal(await openObject(`${file}s`, { isKept: () => true }), undefined)
    t.equal(openFiles(), before)
  },
)
