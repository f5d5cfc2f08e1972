/** Uses up all inodes of the file system of the given directory, through a store. */
import { readdirSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { put, storeServer } from '../kit/proxies/store-server.js'

const [, , directory = ''] = process.argv

t.test('without an inode left a write is 507, and a deletion is not', async t => {
  const server = await storeServer(t, {}, directory)
  let filled = 0
  const fill = { method: 'PUT', body: 'z' }
  while ((await server.request(`/fill/${filled}`, fill)).status === 201) filled++
  t.ok(filled > 20)
  await server.store.close()
  let rounds = 0
  /** Uses up the inodes, including those that were freed, as other processes would. */
  const takeAll = (): void => {
    rounds++
    t.throws(
      () => {
        for (let i = 0; ; i++) writeFileSync(`${directory}/../taken-${rounds}-${i}`, '')
      },
      { code: 'ENOSPC' },
    )
  }
  takeAll()

  // The process has just been started.
  const next = await storeServer(t, {}, directory)
  const etag = (await next.request('/fill/0')).fields['etag'] ?? ''
  const remove = (fields: string[]) => next.request('/fill/0', { method: 'DELETE', fields })
  t.equal((await next.request('/new', fill)).status, 507)
  t.equal((await remove(['If-Match: "other"'])).status, 412)
  t.equal((await remove([`If-Match: ${etag}`])).status, 204)
  t.equal((await remove([])).status, 404)
  t.same(readdirSync(`${directory}/locks`), [])
  for (let i = 1; i < filled; i++) {
    if (i < 5) takeAll()
    t.equal((await next.request(`/fill/${i}`, { method: 'DELETE' })).status, 204, `${i}`)
  }
  t.same(readdirSync(`${directory}/locks`), [])
  await put(next, '/again', 'x')
})
