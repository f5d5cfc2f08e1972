import { createServer, get, type IncomingMessage } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { EventStreams, MAX_WATCHERS } from '../../src/admin/event-streams.js'
import type { StatusDocument } from '../../src/admin/status-document.js'
import { Changes, until } from '../kit/until.js'

/** A stand-in whose traffic is as long as how often it was asked for. */
function numbered(n: number): StatusDocument {
  const requests = Array.from({ length: 100 }, () => n)
  return { schema: 1, traffic: { end: '', requests } } as unknown as StatusDocument
}

async function streams(t: Test) {
  let asked = 0
  const control = { fails: false, asked: () => asked }
  const events = new EventStreams(async () => {
    asked += 1
    if (control.fails) throw new Error('no worker')
    return numbered(asked)
  })
  const server = createServer((_request, response) => void events.add(response, { 'X-Test': 'a' }))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    events.close()
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  const watch = async () => {
    const request = get({ host: '127.0.0.1', port, agent: false })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.setEncoding('utf8')
    let text = ''
    const changes = new Changes()
    response.on('data', (chunk: string) => {
      text += chunk
      changes.notify()
    })
    return {
      response,
      stop: () => request.destroy(),
      next: (): Promise<StatusDocument> =>
        until(
          'a status event',
          () => {
            const found = /event: status\ndata: (.*)\n\n/.exec(text)
            if (found === null) return undefined
            text = text.slice(found.index + found[0].length)
            return JSON.parse(found[1] ?? '') as StatusDocument
          },
          { changes, seen: () => text },
        ),
    }
  }
  return { events, control, watch }
}

t.test('who comes gets the whole, and then what is new of it each second (HTML §9.2)', async t => {
  const { watch } = await streams(t)
  const watcher = await watch()
  t.equal(watcher.response.headers['content-type'], 'text/event-stream')
  t.equal(watcher.response.headers['x-test'], 'a')
  const first = await watcher.next()
  t.equal(first.traffic.requests.length, 100)
  const second = await watcher.next()
  t.equal(second.traffic.requests.length, 10)
  watcher.stop()
})

t.test('nothing is asked for before somebody watches, and what fails once is asked for again', async t => {
  const { control, watch } = await streams(t)
  t.equal(control.asked(), 0)
  control.fails = true
  const watcher = await watch()
  await until('the status to be asked for', () => control.asked() > 0)
  control.fails = false
  t.equal((await watcher.next()).schema, 1)
  watcher.stop()
})

t.test('there is room for so many, and an end for all of them', async t => {
  const { events, watch } = await streams(t)
  const watchers = []
  for (let i = 0; i < MAX_WATCHERS; i++) {
    t.equal(events.isFull, false)
    watchers.push(await watch())
  }
  t.equal(events.isFull, true)
  const closed = watchers.map(
    ({ response }) =>
      new Promise<void>(resolve => response.on('error', () => {}).on('close', () => resolve())),
  )
  events.close()
  await Promise.all(closed)
  await until('there to be room', () => !events.isFull)
  t.equal(events.isFull, false)
})
