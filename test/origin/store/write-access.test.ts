import t from 'tap'
import { put, storeServer } from '../../kit/proxies/store-server.js'

const UNSAFE = [
  ['PUT', '/x'],
  ['POST', '/'],
  ['PATCH', '/x'],
  ['DELETE', '/x'],
] as const

t.test('only clients that may write can use unsafe methods', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  server.mayWrite = false
  for (const [method, target] of UNSAFE) {
    const response = await server.request(target, { method, body: 'y' })
    t.equal(response.status, 403, method)
    t.match(response.body, /^Sluice refused this by policy: origins\[\]\.store\.write /)
  }
  for (const method of ['GET', 'HEAD', 'OPTIONS']) {
    t.equal((await server.request('/x', { method })).status, 200, method)
  }
  t.equal((await server.request('/x')).body, 'content')
})

t.test('no page of another site can write', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  for (const [fields, isOwn] of [
    [[], true],
    [['Origin: http://store.test'], true],
    [['Origin: https://store.test'], true],
    [['Origin: http://STORE.test'], true],
    [['Sec-Fetch-Site: same-origin'], true],
    [['Sec-Fetch-Site: none'], true],
    [['Origin: http://store.test', 'Sec-Fetch-Site: same-origin'], true],
    [['Origin: null'], false],
    [['Origin:'], false],
    [['Origin: http://other.test'], false],
    [['Origin: http://store.test:81'], false],
    [['Origin: http://store.test.other.test'], false],
    [['Origin: ftp://store.test'], false],
    [['Origin: store.test'], false],
    [['Origin: http://store.test', 'Origin: http://other.test'], false],
    [['Sec-Fetch-Site: cross-site'], false],
    [['Sec-Fetch-Site: same-site'], false],
    [['Sec-Fetch-Site:'], false],
    [['Origin: http://store.test', 'Sec-Fetch-Site: same-site'], false],
  ] as const) {
    const response = await server.request('/y', { method: 'PUT', fields, body: 'y' })
    t.equal(response.status !== 403, isOwn, fields.join())
    const read = await server.request('/x', { fields })
    t.equal(read.status, 200, 'what is safe is left to the browser')
  }
  for (const [method, target] of UNSAFE) {
    const fields = ['Sec-Fetch-Site: cross-site']
    t.equal((await server.request(target, { method, fields, body: '' })).status, 403, method)
  }
})

t.test('a page can write only under a name that is configured, or that no one else can own', async t => {
  for (const [isHostNamed, host, isTaken] of [
    [true, 'store.test', true],
    [false, 'store.test', false],
    [false, 'store.test:3128', false],
    [false, 'localhost.store.test', false],
    [false, 'localhost', true],
    [false, 'LOCALHOST:3128', true],
    [false, 'localhost.', true],
    [false, '127.0.0.1:3128', true],
    [false, '10.1.2.3', true],
    [false, '[::1]:3128', true],
  ] as const) {
    await t.test(`${host} ${isHostNamed}`, async t => {
      const server = await storeServer(t, { isHostNamed })
      for (const fields of [
        [`Origin: http://${host}`],
        [`ORIGIN: https://${host}`, 'Sec-Fetch-Site: same-origin'],
        ['Sec-Fetch-Site: none'],
        ['sec-fetch-mode: navigate'],
      ]) {
        for (const [method, target] of UNSAFE) {
          const { status, body } = await server.request(target, { method, fields, host, body: '' })
          t.equal(status !== 403, isTaken, `${method} ${fields.join()}`)
          if (!isTaken) t.match(body, /add the name to origins\[\]\.host/)
        }
        t.not((await server.request('/x', { fields, host })).status, 403, 'reading')
      }
      t.equal(
        (await server.request('/x', { method: 'PUT', host, body: '' })).status < 300,
        true,
        'no browser',
      )
    })
  }
})
