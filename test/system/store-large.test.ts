/**
 * Transfers content of more than 4 GiB (512 MiB with CI=true; or STORE_LARGE_MIB) through the program, to the store and from
 * it, and to an origin and from it. The bytes must be the same, and the memory must not grow with them.
 *
 * The heap of Node and the buffers of a few sockets vary by 64 MiB; a program that kept a fiftieth of the content would
 * need more.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { drain, numberedContent, numberedPiece, writeBulk, bulkDigest } from '../kit/peers/bulk.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { allowing, needsBuild, type Sluice, startSluice } from './program.js'

const MIB = 1024 ** 2
const LARGE_MIB = Number(process.env['STORE_LARGE_MIB'] ?? (process.env['CI'] === 'true' ? 512 : 4096))
/** Not a multiple of any buffer size, and a little more than 32 bits can count. */
const TOTAL = LARGE_MIB * MIB + 1_000_003
/** Bytes before the first measurement of the memory. */
const WARM = 64 * MIB
const MOST_GROWTH = 64 * MIB

interface Download {
  readonly head: string
  readonly bytes: number
  readonly digest: string
}

/** Sends a request, and reads and discards the response up to its Content-Length. */
function download(port: number, request: string): Promise<Download> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port })
    const hash = createHash('sha1')
    let head = ''
    let bytes = 0
    let length = Number.POSITIVE_INFINITY
    const take = (content: Buffer): void => {
      bytes += content.length
      hash.update(content)
      if (bytes >= length) socket.destroy()
    }
    socket.on('data', chunk => {
      if (head.endsWith('\r\n\r\n')) {
        take(chunk)
        return
      }
      const end = chunk.indexOf('\r\n\r\n')
      head += chunk.toString('latin1', 0, end === -1 ? undefined : end + 4)
      if (end === -1) return
      length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? Number.NaN)
      take(chunk.subarray(end + 4))
    })
    socket.on('error', reject)
    socket.on('close', () => resolve({ head, bytes, digest: hash.digest('hex') }))
    socket.write(request)
  })
}

/** The peak memory of the program so far, in bytes. */
function mostMemory({ pid }: Sluice): number {
  const [, kib] = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? []
  if (kib === undefined) throw new Error('no VmHWM')
  return Number(kib) * 1024
}

/** The transfers through the program, of `total` bytes each, in this order. */
const WAYS = {
  'up to the store': async (t: Test, { port }: Place, total: number): Promise<void> => {
    const client = await rawClient(t, port)
    client.write(`PUT /large HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${total}\r\n\r\n`)
    writeBulk(client.socket, total, numberedPiece)
    t.match((await readResponse(client)).status, /^20[14]$/)
    client.end()
  },
  'down from the store': async (t: Test, { port }: Place, total: number): Promise<void> => {
    const { head, ...content } = await download(port, get('/large'))
    t.match(head, /^HTTP\/1\.1 200 /)
    t.same(content, { bytes: total, digest: bulkDigest(total, numberedPiece) })
  },
  'up to an origin': async (t: Test, { port, origin }: Place, total: number): Promise<void> => {
    const client = await rawClient(t, port)
    client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: ${total}\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.socket.removeAllListeners('data')
    writeBulk(client.socket, total, numberedPiece)
    t.equal(await drain(peer.socket, total), bulkDigest(total, numberedPiece))
    peer.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
    t.equal((await readResponse(client)).status, 204)
    peer.end()
    client.end()
  },
  'down from an origin': async (t: Test, { port, origin }: Place, total: number): Promise<void> => {
    const downloaded = download(port, get(`http://${origin.authority}/`))
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(`HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${total}\r\n\r\n`)
    writeBulk(peer.socket, total, numberedPiece)
    const { head, ...content } = await downloaded
    t.match(head, /^HTTP\/1\.1 200 /)
    t.same(content, { bytes: total, digest: bulkDigest(total, numberedPiece) })
    peer.end()
  },
}

interface Place {
  /** Of the program. */
  readonly port: number
  readonly origin: RawOrigin
}

function get(target: string, ...fields: readonly string[]): string {
  return [`GET ${target} HTTP/1.1`, 'Host: 127.0.0.1', ...fields, '', ''].join('\r\n')
}

t.test(`${LARGE_MIB} MiB`, { skip: needsBuild() }, async t => {
  const directory = join(await temporaryDirectory(t), 'data')
  const origin = await rawOrigin(t)
  const sluice = await startSluice(
    t,
    `${allowing(origin.port)}origins:
  - { path: /, store: { directory: ${JSON.stringify(directory)}, max_object: 16GiB, max_total: 32GiB } }
`,
  )
  const place = { port: sluice.proxyPort, origin }
  for (const way of Object.values(WAYS)) await way(t, place, WARM)
  const warm = mostMemory(sluice)

  for (const [name, way] of Object.entries(WAYS)) {
    await t.test(name, async t => {
      await way(t, place, TOTAL)
      const most = mostMemory(sluice)
      t.ok(most - warm < MOST_GROWTH, `at most ${mib(most)} after ${mib(warm)}`)
      t.comment(`memory: at most ${mib(most)}, ${mib(warm)} before`)
    })
  }

  await t.test('ranges after its middle and at its end', async t => {
    const client = await rawClient(t, place.port)
    for (const first of [Math.floor(TOTAL / 2), LARGE_MIB * MIB - 50, LARGE_MIB * MIB + 5, TOTAL - 100]) {
      client.write(get('/large', `Range: bytes=${first}-${first + 99}`))
      const { status, fields, body } = await readResponse(client)
      t.equal(status, 206)
      t.equal(fields['content-range'], `bytes ${first}-${first + 99}/${TOTAL}`)
      t.ok(Buffer.from(body, 'latin1').equals(numberedContent(first, 100)), `100 bytes from ${first}`)
    }
  })
})

function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`
}
