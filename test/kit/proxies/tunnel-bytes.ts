/** How tunnels pass bytes and ends, whatever protocol the client uses to the proxy. */
import type { Test } from 'tap'
import type { Tunnel } from './open-tunnel.js'
import { untilStable } from '../peers/until-stable.js'
import { until } from '../until.js'
import type { TestProxy } from './test-proxy.js'

/** @param open opens another tunnel */
export async function endsPassApart(
  t: Test,
  proxy: Pick<TestProxy, 'event' | 'drain'>,
  open: () => Promise<Tunnel>,
): Promise<void> {
  const first = await open()
  first.client.write('question')
  first.client.end()
  t.equal(await first.upstream.untilEnd(), 'question')
  for (const part of ['an', 'swer']) {
    first.upstream.write(part)
    t.equal(await first.client.until(part.length), part)
  }
  first.upstream.end()
  t.equal(await first.client.untilEnd(), '')
  t.equal(await first.client.outcome(), 'end')

  const second = await open()
  second.upstream.write('bye')
  second.upstream.end()
  t.equal(await second.client.untilEnd(), 'bye')
  second.client.write('still here')
  t.equal(await second.upstream.until(10), 'still here')
  second.client.end()
  t.equal(await second.upstream.untilEnd(), '')
  t.match(await proxy.event('close', 2), { close_reason: 'complete', bytes_up: 10, bytes_down: 3 })
  await proxy.drain()
}

/** @param open opens another tunnel */
export async function resetsPass(
  t: Test,
  proxy: Pick<TestProxy, 'event' | 'drain'>,
  open: () => Promise<Tunnel>,
): Promise<void> {
  const sides = [
    ['client', 'upstream', 'client_reset'],
    ['upstream', 'client', 'upstream_reset'],
  ] as const
  let tunnels = 0
  for (const [from, to, reason] of sides) {
    for (const halfClosed of [false, true]) {
      const tunnel = await open()
      tunnel[from].write('x')
      await tunnel[to].until(1)
      if (halfClosed) {
        tunnel[to].end()
        await tunnel[from].untilEnd()
      }
      tunnel[from].reset()
      t.equal(await tunnel[to].outcome(), 'reset', `${from}, ${halfClosed}`)
      t.match(await proxy.event('close', ++tunnels), { close_reason: reason, status: 200 })
    }
  }
  await proxy.drain()
}

/**
 * One side does not read, and later does.
 *
 * @param open opens another tunnel
 * @param total bytes in each direction: more than all buffers between the ends hold
 */
export async function holdsUp(
  t: Test,
  proxy: Pick<TestProxy, 'drain'>,
  open: () => Promise<Tunnel>,
  total: number,
): Promise<void> {
  const piece = Buffer.alloc(1 << 20, 'x')
  for (const [from, to] of [
    ['client', 'upstream'],
    ['upstream', 'client'],
  ] as const) {
    const tunnel = await open()
    const writer = tunnel[from].socket
    const reader = tunnel[to].socket
    reader.pause()
    for (let written = 0; written < total; written += piece.length) writer.write(piece)
    const waiting = await untilStable(() => writer.writableLength)
    t.ok(waiting > total / 2, `${waiting} bytes wait at the ${from}`)
    let received = 0
    reader.removeAllListeners('data')
    reader.on('data', (chunk: Buffer) => {
      received += chunk.length
    })
    reader.resume()
    await until(`${total} bytes at the ${to}`, () => received >= total, { seen: () => received })
    t.equal(received, total)
    t.equal(writer.writableLength, 0)
    tunnel.client.end()
    tunnel.upstream.end()
  }
  await proxy.drain()
}
