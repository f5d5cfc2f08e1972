/** The memory of the proxy while a lot of data passes through a tunnel to a slow receiver. */
import t from 'tap'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { writeBulk, bulkDigest } from '../kit/peers/bulk.js'
import { drainSlowly, proxyProcess } from './slow-reader.js'

const TOTAL = 1024 ** 3
const DIGEST = bulkDigest(TOTAL)

for (const [name, from, to] of [
  ['up to a slow origin', 'client', 'upstream'],
  ['down to a slow client', 'upstream', 'client'],
] as const) {
  t.test(`1 GiB ${name} through a tunnel`, async t => {
    const proxy = await proxyProcess(t)
    const tunnel = await openTunnel(t, proxy)
    const reader = tunnel[to].socket
    reader.removeAllListeners('data')
    writeBulk(tunnel[from].socket, TOTAL)
    t.equal(await drainSlowly(t, reader, TOTAL, proxy), DIGEST)
    tunnel.client.end()
    tunnel.upstream.end()
  })
}
