import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { turns } from '../kit/peers/settled.js'
import { StreamReader } from '../../src/tunnel/stream-reader.js'

t.test('gives what comes to whoever started last, and first what was taken back', async t => {
  const stream = new PassThrough()
  const reader = new StreamReader(stream as unknown as Socket)
  stream.write('before')
  const first: string[] = []
  reader.start(0, chunk => {
    first.push(chunk.toString())
    return true
  })
  await turns()
  t.same(first, ['before'])
  stream.pause()
  reader.unread(Buffer.from('back'))
  reader.unread(Buffer.alloc(0))
  const second: string[] = []
  reader.start(0, chunk => {
    second.push(chunk.toString())
    return second.length < 2
  })
  t.same(second, ['back'])
  stream.resume()
  stream.write('more')
  await turns()
  t.same(second, ['back', 'more'])
  t.equal(stream.isPaused(), true, 'false stops it')
  reader.release()
  stream.resume()
  stream.end('last')
  await turns()
  t.same([first.length, second.length], [1, 2])
})
