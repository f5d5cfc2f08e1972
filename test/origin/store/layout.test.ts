import { dirname, relative } from 'node:path'
import t from 'tap'
import { digestOf, Layout } from '../../../src/origin/store/layout.js'

const layout = new Layout('/store')

t.test("the name of a file contains only the digest of the resource's path", async t => {
  const names = ['/a', '/A', '/a/', '/..%2F..%2Fa', `/${'x'.repeat(8000)}`, '/%00']
  const digests = names.map(digestOf)
  t.equal(new Set(digests).size, names.length)
  for (const digest of digests) {
    t.match(digest, /^[0-9a-f]{64}$/)
    t.match(relative('/store', layout.objectFile(digest)), /^objects\/[0-9a-f]{2}\/[0-9a-f]{62}$/)
    t.equal(dirname(layout.objectFile(digest)), layout.objectFolder(digest))
  }
})

t.test('a collection has a folder, and a resource with the same name a file', async t => {
  t.match(relative('/store', layout.collectionFolder('/a/')), /^collections\/[0-9a-f]{2}\/[0-9a-f]{62}$/)
  t.not(layout.collectionFolder('/a/'), layout.collectionFolder('/b/'))
  t.same(
    [layout.objects, layout.collections, layout.temporary, layout.locks].map(path =>
      relative('/store', path),
    ),
    ['objects', 'collections', 'tmp', 'locks'],
  )
})
