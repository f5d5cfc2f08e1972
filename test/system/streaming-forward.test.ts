/** The memory of the proxy while a lot of content is forwarded to a slow receiver. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { drain, writeBulk, bulkDigest } from '../kit/peers/bulk.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'

const TOTAL = 1024 ** 3
const WARM = 128 * 1024 ** 2
const MOST_GROWTH = 64 * 1024 ** 2
/** The reader pauses for this time after each so many bytes. */
const REST_MS = 2
const REST_EVERY = 256 * 1024
const DIGEST = bulkDigest(TOTAL)

async function proxyProcess(t: Test): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(join(import.meta.dirname, 'streaming-proxy.js'))
  t.teardown(async () => {
    child.disconnect()
    if (child.exitCode === null) await once(child, 'exit')
  })
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

async function rss(child: ChildProcess): Promise<number> {
  child.send('memory')
  const [bytes] = (await once(child, 'message')) as [number]
  return bytes
}

/** Reads everything slowly, and measures the memory of the proxy from time to time. */
async function drainSlowly(t: Test, socket: Socket, child: ChildProcess): Promise<void> {
  let rested = 0
  let looked = 0
  const seen: Promise<number>[] = []
  const digest = await drain(socket, TOTAL, bytes => {
    if (bytes - looked >= WARM) {
      looked = bytes
      seen.push(rss(child))
    }
    if (bytes - rested < REST_EVERY || bytes >= TOTAL) return
    rested = bytes
    socket.pause()
    setTimeout(() => socket.resume(), REST_MS)
  })
  t.equal(digest, DIGEST)
  const [warm = 0, ...later] = await Promise.all(seen)
  const most = Math.max(...later)
  t.ok(most - warm < MOST_GROWTH, `from ${warm} to at most ${most} bytes`)
}

t.test('1 GiB down to a slow client', async t => {
  const { child, port } = await proxyProcess(t)
  const origin = await rawOrigin(t)
  const client = await rawClient(t, port)
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOTAL}\r\n\r\n`)
  await client.until('\r\n\r\n')
  client.socket.removeAllListeners('data')
  writeBulk(peer.socket, TOTAL)
  await drainSlowly(t, client.socket, child)
})

t.test('1 GiB up to a slow origin', async t => {
  const { child, port } = await proxyProcess(t)
  const origin = await rawOrigin(t)
  const client = await rawClient(t, port)
  client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: ${TOTAL}\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.socket.removeAllListeners('data')
  writeBulk(client.socket, TOTAL)
  await drainSlowly(t, peer.socket, child)
  peer.write('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 201 /)
})
