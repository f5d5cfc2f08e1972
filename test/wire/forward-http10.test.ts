/** HTTP/1.0 clients (RFC 9112 §2.3, §9.3; RFC 9110 §6.2). */
import t from 'tap'
import { DATE } from '../kit/proxies/refusal.js'
import { forwarded, get } from '../kit/proxies/setups.js'

const TAIL = `Date: ${DATE}\r\nVia: 1.1 sluice-test\r\n`

t.test('an HTTP/1.0 client', async t => {
  const get10 = (authority: string, fields = '') => get({ authority }, fields).replace('HTTP/1.1', 'HTTP/1.0')

  await t.test(
    'content of unknown length ends with the connection, without chunks (RFC 9112 §6.3)',
    async t => {
      for (const [response, content] of [
        [
          'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\nX-T: a\r\n\r\n',
          'hello!',
        ],
        ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', ''],
        ['HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello', 'hello'],
      ] as const) {
        for (const fields of ['', 'Connection: keep-alive\r\n']) {
          const { origin, client, proxy } = await forwarded(t)
          client.write(get10(origin.authority, fields))
          const peer = await origin.accept()
          t.match(await peer.until('\r\n\r\n'), '\r\nVia: 1.0 sluice-test\r\n')
          peer.write(response)
          if (!response.includes('chunked')) peer.end()
          t.equal(await client.untilEnd(), `HTTP/1.1 200 OK\r\n${TAIL}Connection: close\r\n\r\n${content}`)
          t.equal(await client.outcome(), 'end')
          t.match(await proxy.event('close'), { close_reason: 'complete', bytes_down: content.length })
        }
      }
    },
  )

  await t.test(
    'the connection is kept when it is asked for and the end is known (RFC 9112 §9.3)',
    async t => {
      const { origin, client } = await forwarded(t)
      let peer: Awaited<ReturnType<typeof origin.accept>> | undefined
      for (const field of [
        'Connection: Keep-Alive',
        'Proxy-Connection: keep-alive',
        'Connection: keep-alive',
      ]) {
        client.write(get10(origin.authority, `${field}\r\n`))
        peer ??= await origin.accept()
        t.notMatch(await peer.until('\r\n\r\n'), 'proxy-connection')
        peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
        t.equal(
          await client.until('ok'),
          `HTTP/1.1 200 OK\r\n${TAIL}Content-Length: 2\r\nConnection: keep-alive\r\n\r\nok`,
        )
      }
      client.write(get10(origin.authority))
      await peer?.until('\r\n\r\n')
      peer?.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      t.equal(
        await client.untilEnd(),
        `HTTP/1.1 200 OK\r\n${TAIL}Content-Length: 2\r\nConnection: close\r\n\r\nok`,
      )
    },
  )
})

t.test('request content of a known length is forwarded', async t => {
  const { origin, client } = await forwarded(t)
  client.write(`POST http://${origin.authority}/ HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello`)
  const peer = await origin.accept()
  t.match(await peer.until('hello'), /^POST \/ HTTP\/1\.1\r\n[\s\S]*\r\nContent-Length: 5\r\n/)
  peer.write('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n')
  t.equal(
    await client.untilEnd(),
    `HTTP/1.1 201 Created\r\n${TAIL}Content-Length: 0\r\nConnection: close\r\n\r\n`,
  )
})
