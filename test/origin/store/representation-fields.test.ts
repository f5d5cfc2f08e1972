import t from 'tap'
import {
  parseRepresentationFields,
  serializeRepresentationFields,
} from '../../../src/origin/store/representation-fields.js'
import { put, storeServer } from '../../kit/proxies/store-server.js'

t.test('stored fields are returned as they were sent (RFC 9110 §8.3, §8.4, §8.5)', async t => {
  for (const [sent, kept] of [
    [[], []],
    [['Content-Type', ''], []],
    [
      ['content-type', '', 'Content-Type', 'text/a'],
      ['Content-Type', 'text/a'],
    ],
    [
      ['Content-Type', 'not a type'],
      ['Content-Type', 'not a type'],
    ],
    [
      ['Content-Type', 'text/a; x="\u00e9"'],
      ['Content-Type', 'text/a; x="\u00e9"'],
    ],
    [
      ['Content-Encoding', 'gzip', 'Content-Encoding', 'br'],
      ['Content-Encoding', 'gzip, br'],
    ],
    [
      ['Content-Encoding', '', 'Content-Encoding', 'br'],
      ['Content-Encoding', 'br'],
    ],
    [
      ['Content-Language', 'de, en'],
      ['Content-Language', 'de, en'],
    ],
    [
      [
        'Content-Language',
        'en',
        'Content-Encoding',
        'br',
        'Content-Type',
        'text/a',
        'Content-Location',
        '/b',
      ],
      ['Content-Type', 'text/a', 'Content-Encoding', 'br', 'Content-Language', 'en'],
    ],
  ] as const) {
    t.same(serializeRepresentationFields(parseRepresentationFields(sent)), kept, sent.join(' '))
  }
})

t.test('more than one Content-Type is 400, and changes nothing (RFC 9110 §8.3)', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  const fields = ['Content-Type: text/a', 'Content-Type: text/b']
  t.equal((await server.request('/x', { method: 'PUT', fields, body: 'x' })).status, 400)
  t.equal((await server.request('/', { method: 'POST', fields, body: 'x' })).status, 400)
  t.equal((await server.request('/x')).body, 'content')
})

t.test('bytes above ASCII in a field are returned unchanged', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content', 'text/a; name="\u00e9\u00ff"')
  t.equal((await server.request('/x')).fields['content-type'], 'text/a; name="\u00e9\u00ff"')
})
