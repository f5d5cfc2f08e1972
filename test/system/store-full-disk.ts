/** Fills the disk of the given directory, through a store. */
import { readdirSync } from 'node:fs'
import t from 'tap'
import { put, storeServer } from '../kit/proxies/store-server.js'

const [, , directory = ''] = process.argv

t.test('a full disk is 507, loses nothing, and can be emptied', async t => {
  const server = await storeServer(t, {}, directory)
  const etag = await put(server, '/kept', 'x'.repeat(300_000))
  for (const target of ['/big', '/big', '/kept']) {
    const response = await server.request(target, { method: 'PUT', body: 'y'.repeat(900_000) })
    t.equal(response.status, 507)
    t.match(response.body, /origins\[\]\.store\.directory is full/)
  }
  t.equal((await server.request('/kept')).fields['etag'], etag)
  t.equal((await server.request('/big')).status, 404)
  const left = readdirSync(`${directory}/tmp`).flatMap(name => readdirSync(`${directory}/tmp/${name}`))
  t.same(left, [])

  // Fills the disk to the last block.
  let filled = 0
  const fill = { method: 'PUT', body: 'z'.repeat(3000) }
  while ((await server.request(`/fill/${filled}`, fill)).status === 201) filled++
  t.ok(filled > 20)
  for (let i = 0; i < filled; i++) {
    t.equal((await server.request(`/fill/${i}`)).body, fill.body)
    t.equal((await server.request(`/fill/${i}`, { method: 'DELETE' })).status, 204)
  }
  await put(server, '/again', 'x'.repeat(300_000))
})
