/**
 * Processes that write to one store are killed at random moments, for STORE_CRASH_MS milliseconds (default 3000). What
 * was acknowledged has to be there, what is there has to be whole, and nobody may be held up by the dead.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type StoreServer, storeServer } from '../kit/store-server.js'

const WRITER = fileURLToPath(new URL('store-writer.js', import.meta.url))
const DURATION_MS = Number(process.env['STORE_CRASH_MS'] ?? 3000)

/** Runs a writer for a while, kills it, and gives for each path the last line about it. */
async function killedWriter(directory: string, name: string, lifeMs: number): Promise<string[]> {
  const child = spawn(process.execPath, [WRITER, directory, name], { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.setEncoding('latin1')
  const begun = once(child.stdout, 'data')
  child.stdout.on('data', (text: string) => {
    said += text
  })
  const closed = once(child, 'close')
  await begun
  await delay(lifeMs)
  child.kill('SIGKILL')
  await closed
  return said.slice(0, said.lastIndexOf('\n')).split('\n')
}

/** The last acknowledged state of each path, and whether another write was under way. */
function statesOf(lines: readonly string[]): Map<string, { etag: string | undefined; pending: boolean }> {
  const states = new Map<string, { etag: string | undefined; pending: boolean }>()
  for (const line of lines) {
    const [path = '', etag] = line.split(' ')
    if (etag === '?') states.set(path, { etag: states.get(path)?.etag, pending: true })
    else states.set(path, { etag, pending: false })
  }
  return states
}

async function namesIn(server: StoreServer, collection: string): Promise<string[]> {
  const response = await server.request(collection)
  if (response.status === 404) return []
  return (JSON.parse(response.body) as { items: { name: string }[] }).items.map(item => item.name)
}

t.test('a killed process loses no acknowledged write and leaves no torn one', async t => {
  const directory = `${t.testdir()}/data`
  const end = Date.now() + DURATION_MS
  let checked = 0
  for (let round = 0; Date.now() < end; round++) {
    const names = [`a${round}`, `b${round}`]
    const lines = await Promise.all(
      names.map(name => killedWriter(directory, name, 50 + Math.random() * 400)),
    )
    const server = await storeServer(t, { now: Date.now }, directory)
    for (const [path, { etag, pending }] of statesOf(lines.flat())) {
      const response = await server.request(path)
      if (!pending) t.equal(response.fields['etag'] ?? '-', etag ?? '-', path)
      const listed = (await namesIn(server, path.replace(/[^/]*$/, ''))).includes(path.replace(/.*\//, ''))
      t.equal(listed, response.status === 200, `${path} is listed when it is there`)
      if (response.status !== 200) continue
      const [hash, ...filler] = response.body.split(' ')
      t.equal(createHash('sha256').update(filler.join(' ')).digest('hex'), hash, `${path} is whole`)
      checked++
    }
    for (const i of [0, 1, 2]) {
      const response = await server.request(`/shared/${i}`, { method: 'PUT', body: 'after' })
      t.match(response.status, /20[14]/, 'no dead process holds it')
    }
    await server.store.close()
    t.same(readdirSync(`${directory}/tmp`), [], 'nothing half-done is left')
  }
  t.ok(checked > 0)
})
