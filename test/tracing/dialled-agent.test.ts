import { createServer, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { ProxyError } from '../../src/errors.js'
import type { CancelSignal } from '../../src/exchange.js'
import { DialledAgent } from '../../src/tracing/dialled-agent.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'

/** What becomes of a GET of a host that nothing leads to, by this agent: the status, or the error's code. */
function get(agent: DialledAgent, url = 'http://nowhere.test/x'): Promise<number | string> {
  return new Promise(resolve => {
    const { protocol } = new URL(url)
    // node:https is the same request, with another agent where none is given.
    const asked = request(url, { agent, protocol }, response => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    asked.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    asked.end()
  })
}

function dial(t: Test, port: number): () => Promise<Socket> {
  return async () => {
    const socket = connect({ host: '127.0.0.1', port })
    t.teardown(() => socket.destroy())
    await new Promise(resolve => socket.once('connect', resolve))
    return socket
  }
}

t.test('requests go over the sockets that it is given, one each, whatever the URL', async t => {
  const server = createServer((_request, response) => response.end()).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await new Promise(resolve => server.once('listening', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  let opened = 0
  const open = dial(t, port)
  for (const scheme of ['http', 'https'] as const) {
    const agent = new DialledAgent(scheme, () => {
      opened += 1
      return open()
    })
    t.equal(await get(agent, `${scheme}://nowhere.test/x`), 200)
    t.equal(await get(agent, `${scheme}://nowhere.test/x`), 200)
    agent.close()
  }
  t.equal(opened, 4)
})

t.test('a failure has the code of the system where it has one', async t => {
  const failing = (error: unknown) => get(new DialledAgent('http', () => Promise.reject(error)))
  const cause = Object.assign(new Error('no'), { code: 'ECONNREFUSED' })
  t.equal(
    await failing(new ProxyError('connection_refused', 'connection refused', { cause })),
    'ECONNREFUSED',
  )
  t.equal(await failing(new ProxyError('dns_timeout', 'too slow')), 'too slow')
  t.equal(await failing('odd'), 'odd')
})

t.test('closed, it ends what is open and what is being dialled', async t => {
  const origin = await rawOrigin(t)
  const open = new DialledAgent('http', dial(t, origin.port))
  const asked = get(open)
  await (await origin.accept()).until('\r\n\r\n')
  open.close()
  t.equal(await asked, 'closed')

  let given: CancelSignal | undefined
  const dialling = new DialledAgent('http', signal => {
    given = signal
    return new Promise((_resolve, reject) =>
      signal.addEventListener('abort', () => reject(new Error('gave up'))),
    )
  })
  const waiting = get(dialling)
  t.equal(given?.aborted, false)
  dialling.close()
  t.equal(await waiting, 'gave up')
})
