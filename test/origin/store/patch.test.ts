import { symlinkSync, unlinkSync } from 'node:fs'
import t from 'tap'
import { ACCEPT_PATCH } from '../../../src/origin/store/answers.js'
import { digestOf } from '../../../src/origin/store/layout.js'
import { Owner } from '../../../src/origin/store/owner.js'
import { MAX_PATCH_BYTES, MAX_PATCH_TARGET_BYTES } from '../../../src/origin/store/patch-document.js'
import { type RawResponse, readResponse } from '../../kit/peers/read-response.js'
import { turns } from '../../kit/peers/until-stable.js'
import { countThreads } from '../../kit/processes/count-threads.js'
import { put, requestText, type StoreServer, storeServer } from '../../kit/proxies/store-server.js'

const JSON_PATCH = 'application/json-patch+json'
const MERGE_PATCH = 'application/merge-patch+json'

function patch(server: StoreServer, body: string, type: string, fields: string[] = []): Promise<RawResponse> {
  return server.request('/x', { method: 'PATCH', fields: [`Content-Type: ${type}`, ...fields], body })
}

t.test('PATCH changes a part of the content and keeps the fields (RFC 5789 §2)', async t => {
  const server = await storeServer(t)
  const etag = await put(server, '/x', '{"a":1}', 'application/json')
  server.clock += 60_000
  const first = await patch(server, '[{"op":"add","path":"/b","value":2}]', JSON_PATCH)
  t.equal(first.status, 204)
  t.equal(first.fields['content-length'], undefined)
  t.not(first.fields['etag'], etag)
  const second = await patch(server, '{"a":null}', `${MERGE_PATCH}; charset=utf-8`)
  t.equal(second.status, 204)
  const read = await server.request('/x')
  t.equal(read.body, '{"b":2}')
  t.equal(read.fields['content-type'], 'application/json')
  t.equal(read.fields['etag'], second.fields['etag'])
  t.equal(read.fields['last-modified'], 'Sun, 01 Mar 2026 12:01:00 GMT')
})

t.test('a patch that cannot be applied changes nothing (RFC 5789 §2)', async t => {
  const server = await storeServer(t)
  const etag = await put(server, '/x', '{"a":1}', 'application/json')
  for (const [body, type, status] of [
    ['[{"op":"add","path":"/b","value":2},{"op":"test","path":"/a","value":2}]', JSON_PATCH, 422],
    ['[{"op":"remove","path":"/b"}]', JSON_PATCH, 422],
    ['[{"op":"remove"}]', JSON_PATCH, 400],
    ['not JSON', JSON_PATCH, 400],
    ['', MERGE_PATCH, 400],
    ['{"a":12345678901234567890}', MERGE_PATCH, 400],
    [`${'['.repeat(200_000)}${']'.repeat(200_000)}`, MERGE_PATCH, 400],
    ['{}', 'application/json', 415],
    ['{}', 'text/plain', 415],
  ] as const) {
    const response = await patch(server, body, type)
    t.equal(response.status, status, body.slice(0, 60))
    t.equal(response.fields['accept-patch'], response.status === 415 ? ACCEPT_PATCH : undefined)
  }
  t.equal((await server.request('/x', { method: 'PATCH', body: '{}' })).status, 415)
  t.equal((await patch(server, '{}', MERGE_PATCH, ['Content-Encoding: gzip'])).status, 415)
  t.equal((await patch(server, '{}', MERGE_PATCH, ['Content-Encoding: identity'])).status, 204)
  t.equal((await server.request('/x')).fields['etag'], etag)
})

t.test('targets that are not JSON are 422, missing ones are 404', async t => {
  const server = await storeServer(t)
  t.equal((await patch(server, '{}', MERGE_PATCH)).status, 404)
  t.equal((await patch(server, '{}', MERGE_PATCH, ['If-Match: *'])).status, 404)
  for (const content of ['', 'text', '{"a":12345678901234567890}', '\u00ff']) {
    await put(server, '/x', content, 'application/json')
    t.equal((await patch(server, '{"a":1}', MERGE_PATCH)).status, 422, content)
    t.equal((await server.request('/x')).body, content)
  }
  const fields = ['Content-Encoding: gzip']
  await server.request('/x', { method: 'PUT', fields, body: '{}' })
  t.equal((await patch(server, '{}', MERGE_PATCH)).status, 422)
})

t.test('preconditions of PATCH (RFC 9110 §13.2.2)', async t => {
  const server = await storeServer(t)
  const etag = await put(server, '/x', '{}')
  t.equal((await patch(server, '{"a":1}', MERGE_PATCH, ['If-Match: "other"'])).status, 412)
  t.equal((await patch(server, '{"a":1}', MERGE_PATCH, ['If-None-Match: *'])).status, 412)
  t.equal((await patch(server, '{"a":1}', 'text/plain', ['If-Match: "other"'])).status, 415)
  t.equal((await patch(server, '{"a":1}', MERGE_PATCH, [`If-Match: ${etag}`])).status, 204)
  t.equal((await patch(server, '{"a":2}', MERGE_PATCH, [`If-Match: ${etag}`])).status, 412)
  t.equal((await server.request('/x')).body, '{"a":1}')
})

t.test('parallel patches are all applied, one after another', async t => {
  const server = await storeServer(t)
  await put(server, '/x', '[]')
  const all = Array.from({ length: 20 }, (_, i) =>
    patch(server, `[{"op":"add","path":"/-","value":${i}}]`, JSON_PATCH),
  )
  t.ok((await Promise.all(all)).every(response => response.status === 204))
  const numbers = JSON.parse((await server.request('/x')).body) as number[]
  t.same(
    numbers.sort((a, b) => a - b),
    Array.from({ length: 20 }, (_, i) => i),
  )
})

t.test('patch documents and targets have limits', async t => {
  const server = await storeServer(t, { maxObjectBytes: MAX_PATCH_TARGET_BYTES + 1 })
  await put(server, '/x', '{}')
  const document = (bytes: number): string => `"${'x'.repeat(bytes - 2)}"`
  t.equal((await patch(server, document(MAX_PATCH_BYTES), MERGE_PATCH)).status, 204)
  t.equal((await patch(server, document(MAX_PATCH_BYTES + 1), MERGE_PATCH)).status, 413)
  await put(server, '/x', document(MAX_PATCH_TARGET_BYTES))
  t.equal((await patch(server, '1', MERGE_PATCH)).status, 204)
  await put(server, '/x', document(MAX_PATCH_TARGET_BYTES + 1))
  t.equal((await patch(server, '1', MERGE_PATCH)).status, 413)
})

t.test('a result can be patched again, and no member of a resource is lost', async t => {
  const server = await storeServer(t)
  const deep = `{"a":${'['.repeat(499)}${']'.repeat(499)}}`
  await put(server, '/x', deep)
  const below = `/a${'/0'.repeat(498)}/-`
  const add = await patch(server, `[{"op":"add","path":"${below}","value":[]}]`, JSON_PATCH)
  t.match([add.status, add.body], [422, /nothing was changed: nested more than 500 levels deep/])
  t.equal((await patch(server, `{"b":{"c":${deep}}}`, MERGE_PATCH)).status, 400)
  t.equal((await patch(server, `{"b":${deep.slice(5, -1)}}`, MERGE_PATCH)).status, 204)
  // {"a":"x..."}, with a member b that makes it as long as possible.
  const [a, b] = [700_000, MAX_PATCH_TARGET_BYTES - 700_000 - '{"a":"","b":""}'.length]
  await put(server, '/x', `{"a":"${'x'.repeat(a)}"}`)
  const long = await patch(server, `{"b":"${'x'.repeat(b + 1)}"}`, MERGE_PATCH)
  t.match(
    [long.status, long.body],
    [422, /nothing was changed: the result would have more than 1048576 bytes/],
  )
  t.equal((await patch(server, `{"b":"${'x'.repeat(b)}"}`, MERGE_PATCH)).status, 204)
  t.equal((await patch(server, '{"a":null}', MERGE_PATCH)).status, 204)
  await put(server, '/x', '{"a":1,"a":2}')
  t.equal((await patch(server, '{"b":1}', MERGE_PATCH)).status, 422)
  t.equal((await server.request('/x')).body, '{"a":1,"a":2}')
  await put(server, '/x', '{"x":1.2345678901234566e-07}')
  t.equal((await patch(server, '{"b":1,"b":2}', MERGE_PATCH)).status, 400)
  t.equal((await patch(server, '{"b":1}', MERGE_PATCH)).status, 204)
})

t.test('the result may not be longer than max_object', async t => {
  const server = await storeServer(t, { maxObjectBytes: 10 })
  await put(server, '/x', '{}')
  t.equal((await patch(server, '"12345678"', MERGE_PATCH)).status, 204)
  t.equal((await patch(server, '"123456789"', MERGE_PATCH)).status, 413)
})

t.test('waiting patch documents are limited, for each client and in total', async t => {
  const server = await storeServer(t)
  await put(server, '/x', '{}')
  const lock = `${server.directory}/locks/${digestOf('/x')}`
  // It is held by a living process, this one, until the test releases it.
  symlinkSync(`${(await Owner.ofThisProcess('a')).id} test`, lock)
  const body = `"${'x'.repeat(MAX_PATCH_BYTES - 2)}"`
  const answers: Promise<RawResponse>[] = []
  let refused = 1
  for (const [network, count, taken] of [
    ['a', 9, 7],
    ['b', 8, 7],
    ['c', 8, 7],
    ['d', 8, 7],
    ['e', 4, 3],
  ] as const) {
    server.network = network
    for (let i = 0; i < count; i++) answers.push(patch(server, body, MERGE_PATCH))
    refused += count - taken
    await server.outcome(refused)
  }
  t.same(
    server.outcomes.slice(1).map(({ status, error }) => [status, error?.reason]),
    [...Array.from({ length: 5 }, () => [429, 'store_busy_client']), [503, 'store_busy']],
  )
  unlinkSync(lock)
  const statuses = (await Promise.all(answers)).map(({ status }) => status)
  t.equal(statuses.filter(status => status === 204).length, 31)
  t.equal((await patch(server, '{}', MERGE_PATCH)).status, 204)
})

t.test('a document that arrives byte by byte is held in one buffer', async t => {
  const server = await storeServer(t)
  await put(server, '/x', '{}')
  const client = await server.connect()
  client.write(
    `PATCH /x HTTP/1.1\r\nHost: h\r\nContent-Type: ${MERGE_PATCH}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  )
  const document = `{"a":"${'x'.repeat(9000)}"}`
  for (const byte of document) client.write(`1\r\n${byte}\r\n`)
  client.write('0\r\n\r\n')
  t.equal((await readResponse(client, 'PATCH')).status, 204)
  t.equal((await server.request('/x')).body, document)
})

t.test('short patches start no thread, and the thread for long ones ends with the store', async t => {
  const threads = countThreads(t)
  const server = await storeServer(t)
  await put(server, '/x', '{"a":1}')
  t.equal((await patch(server, '{"b":2}', MERGE_PATCH)).status, 204)
  t.equal((await patch(server, '[{"op":"remove","path":"/b"}]', JSON_PATCH)).status, 204)
  t.equal(threads.started, 0)
  t.equal((await patch(server, '[{"op":"copy","path":"/b","from":"/a"}]', JSON_PATCH)).status, 204)
  t.equal((await patch(server, `{"c":"${'x'.repeat(33_000)}"}`, MERGE_PATCH)).status, 204)
  t.equal((await patch(server, `{"c":"${'x'.repeat(33_000)}"`, MERGE_PATCH)).status, 400)
  t.equal(threads.started, 1)
  await server.store.close()
  t.equal(threads.ended, 1)
})

t.test('a patch whose client has gone is not given to the thread', async t => {
  const server = await storeServer(t)
  await put(server, '/x', '{}')
  const lock = `${server.directory}/locks/${digestOf('/x')}`
  symlinkSync(`${(await Owner.ofThisProcess('a')).id} test`, lock)
  const client = await server.connect()
  const body = `{"c":"${'x'.repeat(33_000)}"}`
  client.write(requestText('/x', { method: 'PATCH', fields: [`Content-Type: ${MERGE_PATCH}`], body }))
  await turns(50)
  client.reset()
  t.match(await server.outcome(2), { status: 0, closeReason: 'client_gone' })
  unlinkSync(lock)
  t.equal((await server.request('/x')).body, '{}')
})
