/** However exchanges and tunnels end, their reservations are released. */
import t from 'tap'
import { givenBack, limited } from '../kit/proxies/setups.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'

/** Small, fast and reproducible. */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

t.test('however exchanges and tunnels end, all reservations are released', async t => {
  const { proxy, ledger } = await limited(t, 'tunnels: 4, connections: 30, bytes_per_hour: 1GiB')
  const origin = await rawOrigin(t)
  const random = randomNumbers(7)
  const upstreams: RawPeer[] = []
  origin.each(peer => upstreams.push(peer))
  const requests = [
    `CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`,
    `GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`,
    `GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`,
    `POST http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx`,
    'CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: h\r\n\r\n',
    'BAD\r\n\r\n',
    'OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n',
  ]
  const drop = (peer: RawPeer | undefined) => {
    const way = random()
    if (way < 0.3) peer?.reset()
    else if (way < 0.6) peer?.end()
    else if (way < 0.7) peer?.write('HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n')
    else if (way < 0.8) peer?.write('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc')
    else peer?.destroy()
  }
  const clients: RawPeer[] = []
  let most = 0
  for (let i = 0; i < 150; i++) {
    const client = await rawClient(t, proxy.port)
    clients.push(client)
    client.write(requests[Math.floor(random() * requests.length)] ?? '')
    for (const list of [clients, upstreams]) {
      if (random() < 0.5) drop(list[Math.floor(random() * list.length)])
    }
    most = Math.max(most, ledger.held('tunnels'))
    t.ok(ledger.held('tunnels') <= 4 && ledger.held('connections') <= 30)
  }
  t.ok(most > 0)
  for (const peer of [...clients, ...upstreams]) peer.destroy()
  await t.resolves(givenBack(ledger))
})
