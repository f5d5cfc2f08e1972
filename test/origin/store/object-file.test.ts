import { writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import {
  type ObjectMetadata,
  openObject,
  serializeTrailer,
  startDigest,
  validatorsOf,
} from '../../../src/origin/store/object-file.js'

const METADATA: ObjectMetadata = {
  path: '/a',
  fields: { contentType: 'text/a' },
  etag: 'tag',
  modifiedMs: 1234,
  length: 7,
}

function fileOf(t: Test, ...pieces: (string | Buffer)[]): string {
  const path = `${t.testdir()}/object`
  writeFileSync(path, Buffer.concat(pieces.map(piece => Buffer.from(piece as string))))
  return path
}

t.test('content and what is known of it come out of one file', async t => {
  // Longer than what is read at once, with a name as long as a target may be, and with bytes that are two in UTF-8.
  for (const path of ['/a', `/${'x'.repeat(8191)}`, `/${'x'.repeat(1900)}`]) {
    const metadata = { ...METADATA, path, fields: { contentType: `text/a; x="${'\u00e9'.repeat(20)}"` } }
    const trailer = serializeTrailer(metadata)
    const object = await openObject(fileOf(t, 'content', trailer))
    t.same(object?.metadata, metadata)
    t.equal(object?.size, 7 + trailer.length)
    const { buffer, bytesRead } = (await object?.file.read(Buffer.alloc(7), 0, 7, 0)) ?? {}
    t.equal(buffer?.toString('latin1', 0, bytesRead), 'content')
    await object?.file.close()
  }
  t.equal(await openObject(`${t.testdir()}/none`), undefined)
})

t.test('a file that is not whole is none', async t => {
  const trailer = serializeTrailer(METADATA)
  for (const [name, ...pieces] of [
    ['empty'],
    ['too short for a footer', 'sluice1\n'],
    ['cut off at the end', 'content', trailer.subarray(0, -1)],
    ['cut off at the beginning', 'onten', trailer],
    ['longer than it says', 'contents', trailer],
    ['another format', 'content', trailer.toString('latin1').replace('sluice1', 'sluice2')],
    ['a length beyond the file', `{}ffffffffsluice1\n`],
    ['a length that is no number', `{}........sluice1\n`],
  ] as const) {
    await t.rejects(openObject(fileOf(t, ...pieces)), /store/, name)
  }
})

t.test('a tag is of the fields as well as of the content, and strong (RFC 9110 §8.8.3.3)', async t => {
  const tags = [{}, { contentType: 'a' }, { contentLanguage: 'a' }, { contentEncoding: 'a' }].map(fields =>
    startDigest(fields).update('content').digest('hex'),
  )
  t.equal(new Set(tags).size, 4)
  t.equal(startDigest({}).update('content').digest('hex'), tags[0])
  t.same(validatorsOf(METADATA), { etag: { weak: false, opaque: 'tag' }, lastModifiedMs: 1234 })
})
