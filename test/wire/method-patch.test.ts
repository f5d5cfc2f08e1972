/** PATCH: the method specification, 4.11 and 7 (RFC 5789 §2; RFC 6902, RFC 7396), through the whole proxy. */
import t from 'tap'
import { type ThreeWays, threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'

const JSON_PATCH = 'Content-Type: application/json-patch+json\r\n'
const MERGE_PATCH = 'Content-Type: application/merge-patch+json\r\n'
const ACCEPTED = 'application/json-patch+json, application/merge-patch+json'

/** A store with a document, and functions that change and read it. */
async function kept(world: ThreeWays, document: unknown) {
  const at = world.target('store')
  await world.ask('PUT', at, {
    fields: 'Content-Type: application/json\r\n',
    content: JSON.stringify(document),
  })
  return {
    patch: (fields: string, patch: unknown) =>
      world.ask('PATCH', at, { fields, content: typeof patch === 'string' ? patch : JSON.stringify(patch) }),
    read: async () => (await world.ask('GET', at)).body,
  }
}

t.test('4.11 a part is changed and the rest stays', async t => {
  const { patch, read } = await kept(await threeWays(t), { a: 1, b: [1, 2] })
  t.equal((await patch(JSON_PATCH, [{ op: 'replace', path: '/b/0', value: 9 }])).status, 204)
  t.equal(await read(), '{"a":1,"b":[9,2]}')
  t.equal((await patch(MERGE_PATCH, { a: null, c: 3 })).status, 204)
  t.equal(await read(), '{"b":[9,2],"c":3}')
})

t.test(
  '4.11 an origin gets the patch document as it came, and its answer comes back, content or none',
  async t => {
    const { origin, ask, target } = await threeWays(t)
    for (const way of UPSTREAM_WAYS) {
      for (const [head, status, body] of [
        ['204 No Content\r\n\r\n', 204, ''],
        ['200 OK\r\nContent-Length: 2\r\n\r\n{}', 200, '{}'],
      ] as const) {
        origin.script = () => `HTTP/1.1 ${head}`
        const got = await ask('PATCH', target(way), { fields: MERGE_PATCH, content: '{"a": 1}' })
        t.same([got.status, got.body], [status, body])
        t.match(origin.requests.at(-1), { method: 'PATCH', content: '{"a": 1}', head: MERGE_PATCH }, way)
      }
    }
  },
)

t.test('4.11 the same patch again is applied again; with If-Match it is applied once', async t => {
  const world = await threeWays(t)
  const { patch, read } = await kept(world, [])
  const add = [{ op: 'add', path: '/-', value: 1 }]
  await patch(JSON_PATCH, add)
  await patch(JSON_PATCH, add)
  t.equal(await read(), '[1,1]', 'instructions add up')
  const { fields } = await world.ask('HEAD', world.target('store'))
  const once = `${JSON_PATCH}If-Match: ${fields['etag']}\r\n`
  t.equal((await patch(once, add)).status, 204)
  t.equal((await patch(once, add)).status, 412, 'it was for the version before')
  t.equal(await read(), '[1,1,1]')
})

t.test(
  '2, 4.11, 9 Content-Type says which patch format it is, and the same bytes mean another thing by it',
  async t => {
    const world = await threeWays(t)
    const { patch, read } = await kept(world, { a: 1 })
    const document = '[{"op":"remove","path":"/a"}]'
    t.equal(
      (await patch(JSON_PATCH.replace('json-patch', 'JSON-Patch').replace('\r\n', ';a=b\r\n'), document))
        .status,
      204,
    )
    t.equal(await read(), '{}')
    t.equal((await patch(MERGE_PATCH, document)).status, 204)
    t.equal(await read(), document, 'to a merge patch it is an array, which replaces the whole')
    t.equal((await patch(JSON_PATCH, '{"b":2}')).status, 400, 'a part of a representation is no JSON Patch')
    t.equal(await read(), document)
  },
)

t.test('4.11 a patch is applied as a whole or not at all', async t => {
  const { patch, read } = await kept(await threeWays(t), { a: 1, b: 2 })
  const before = await read()
  for (const last of [
    { op: 'remove', path: '/none' },
    { op: 'test', path: '/a', value: 1 },
    { op: 'replace', path: '/x/y', value: 1 },
    { op: 'move', from: '/none', path: '/c' },
  ]) {
    const { status } = await patch(JSON_PATCH, [
      { op: 'remove', path: '/a' },
      { op: 'add', path: '/c', value: 3 },
      last,
    ])
    t.equal(status, 422, last.op)
    t.equal(await read(), before, 'what came first was not done either')
  }
})

t.test('4.11 who reads while patches are applied sees all of each or nothing', async t => {
  const world = await threeWays(t)
  const { patch, read } = await kept(world, { n: 0, same: 0 })
  const patches = Array.from({ length: 10 }, (_, i) => patch(MERGE_PATCH, { n: i + 1, same: i + 1 }))
  const reads = await Promise.all(Array.from({ length: 20 }, read))
  for (const body of reads) {
    const { n, same } = JSON.parse(body)
    t.equal(n, same)
  }
  t.same(new Set((await Promise.all(patches)).map(({ status }) => status)), new Set([204]))
})

t.test('4.11 Accept-Patch lists the formats that are taken, and that of an origin passes', async t => {
  const { origin, ask, target } = await threeWays(t)
  t.equal((await ask('OPTIONS', target('store'))).fields['accept-patch'], ACCEPTED)
  t.equal(
    (await ask('OPTIONS', target('store', '/'))).fields['accept-patch'],
    undefined,
    'a collection takes none',
  )
  for (const way of UPSTREAM_WAYS) {
    origin.script = () => 'HTTP/1.1 204 No Content\r\nAccept-Patch: text/x-diff;charset=utf-8\r\n\r\n'
    t.equal((await ask('OPTIONS', target(way))).fields['accept-patch'], 'text/x-diff;charset=utf-8', way)
  }
})

t.test('7 a patch format that is not taken is 415 with Accept-Patch, and changes nothing', async t => {
  const { patch, read } = await kept(await threeWays(t), { a: 1 })
  for (const fields of [
    '',
    'Content-Type: application/json\r\n',
    'Content-Type: text/x-diff\r\n',
    'Content-Type: application/json-patch\r\n',
    'Content-Type: application/json-patch+jsonx\r\n',
    JSON_PATCH + MERGE_PATCH,
    `${JSON_PATCH}Content-Encoding: gzip\r\n`,
  ]) {
    const { status, fields: answered } = await patch(fields, [])
    t.same([status, answered['accept-patch']], [415, ACCEPTED], fields)
  }
  t.equal(await read(), '{"a":1}')
})

t.test('7 a good patch that cannot be applied here is 422, a bad one 400', async t => {
  const world = await threeWays(t)
  const { patch, read } = await kept(world, { a: [1] })
  for (const [operation, status] of [
    [{ op: 'remove', path: '/b' }, 422],
    [{ op: 'add', path: '/a/2', value: 1 }, 422],
    [{ op: 'test', path: '/a/0', value: 2 }, 422],
    [{ op: 'remove', path: 'a' }, 400],
    [{ op: 'none', path: '/a' }, 400],
  ] as const) {
    t.equal((await patch(JSON_PATCH, [operation])).status, status, JSON.stringify(operation))
  }
  t.equal((await patch(JSON_PATCH, 'no json')).status, 400)
  t.equal(await read(), '{"a":[1]}')
  const text = world.target('store', '/text')
  await world.ask('PUT', text, { content: 'no json' })
  t.equal((await world.ask('PATCH', text, { fields: JSON_PATCH, content: '[]' })).status, 422)
})

t.test('7 an If-Match that does not hold is 412, and changes nothing', async t => {
  const { patch, read } = await kept(await threeWays(t), { a: 1 })
  for (const condition of ['If-Match: "x"\r\n', 'If-Match: W/"x"\r\n', 'If-None-Match: *\r\n']) {
    t.equal((await patch(MERGE_PATCH + condition, { a: 2 })).status, 412, condition)
  }
  t.equal(await read(), '{"a":1}')
  t.equal((await patch(`${MERGE_PATCH}If-Match: *\r\n`, { a: 2 })).status, 204)
  t.equal(await read(), '{"a":2}')
})
