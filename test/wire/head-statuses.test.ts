/**
 * HEAD is answered without content (method specification, 4.4; RFC 9110 §9.3.2): every status that an origin can send
 * and those of the store, with the next request on the same connection behind each.
 */
import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'

const STATUSES = Array.from({ length: 400 }, (_, i) => 200 + i)
const SMUGGLED = 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad'

/** What an origin may send after the head of its response to HEAD, and the content that it declares. */
const ORIGINS = {
  'that sends no content': { fields: 'Content-Length: 5\r\n', content: '', ending: undefined },
  'that says nothing of content': { fields: '', content: '', ending: undefined },
  'that tells of chunks and sends none': {
    fields: 'Transfer-Encoding: chunked\r\n',
    content: '',
    ending: undefined,
  },
  'that wrongly sends content': { fields: 'Content-Length: 5\r\n', content: 'hello', ending: 'end' },
  'that wrongly sends content and stays': {
    fields: 'Content-Length: 5\r\n',
    content: 'hello',
    ending: undefined,
  },
  'that wrongly sends a second answer': {
    fields: 'Content-Length: 40\r\n',
    content: SMUGGLED,
    ending: 'end',
  },
} as const

for (const way of UPSTREAM_WAYS) {
  for (const [kind, { fields, content, ending }] of Object.entries(ORIGINS)) {
    t.test(`4.4 no content on any status from an origin ${kind}, by ${way}`, async t => {
      let status = 0
      const { origin, text, target, connect } = await threeWays(t, {
        script: ({ method }) => {
          if (method !== 'HEAD') return 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext'
          const bytes = `HTTP/1.1 ${status} X\r\nDate: x\r\nETag: "e"\r\n${fields}\r\n${content}`
          return ending === undefined ? { bytes } : { bytes, ending }
        },
      })
      const client = await connect()
      const expected = (code: number): string => {
        const length = fields.startsWith('Content-Length') && code !== 204 ? fields : ''
        return ` X\r\nDate: x\r\nETag: "e"\r\nVia: 1.1 sluice-test\r\n${length}\r\n`
      }
      const wrong: string[] = []
      for (status of STATUSES) {
        client.write(text('HEAD', target(way)))
        const head = await client.until('\r\n\r\n')
        if (head !== `HTTP/1.1 ${status}${expected(status)}`) wrong.push(head)
      }
      t.same(wrong, [], 'each is the head of the origin, on one connection of the client')
      t.equal(origin.requests.length, STATUSES.length, 'each was asked for once')
      client.write(text('GET', target(way)))
      t.equal((await readResponse(client)).body, 'next')
      t.equal(await untilStable(() => client.received), '', 'nothing more comes')
    })
  }
}

t.test('4.4 no content on any status of the store, and the next request is answered', async t => {
  const { ask, connect, text, target } = await threeWays(t)
  const made = await ask('PUT', target('store'), {
    fields: 'Content-Type: text/plain\r\n',
    content: 'hello',
  })
  const etag = made.fields['etag']
  const client = await connect()
  for (const [path, fields, status, length] of [
    ['/a', '', 200, '5'],
    ['/a', 'Range: bytes=1-2\r\n', 200, '5'],
    ['/a', 'Range: bytes=9-\r\n', 200, '5'],
    ['/a', `If-None-Match: ${etag}\r\n`, 304, undefined],
    ['/a', 'If-Modified-Since: Fri, 31 Dec 2100 00:00:00 GMT\r\n', 304, undefined],
    ['/a', 'If-Match: "other"\r\n', 412, 'as GET'],
    ['/none', '', 404, 'as GET'],
    ['/', '', 200, 'as GET'],
    ['/?limit=x', '', 400, 'as GET'],
    ['/none/', '', 404, 'as GET'],
  ] as const) {
    client.write(text('HEAD', target('store', path), { fields }))
    const head = await client.until('\r\n\r\n')
    t.match(head, new RegExp(`^HTTP/1\\.1 ${status} `), `${path} ${fields}`)
    const declared = /\r\nContent-Length: (\d+)\r\n/.exec(head)?.[1]
    client.write(text('GET', target('store', path), { fields: fields.startsWith('Range') ? '' : fields }))
    const got = await readResponse(client)
    t.equal(got.status, status, 'GET is answered behind it, and the same')
    t.equal(declared, length === 'as GET' ? String(got.body.length) : length)
    t.equal(client.received, '')
  }
})
