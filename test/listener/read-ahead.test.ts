import t from 'tap'
import { limitReadAhead } from '../../src/listener/read-ahead.js'
import { accepted } from '../kit/peers/accepted.js'
import { arrived } from '../kit/peers/arrived.js'
import { turns } from '../kit/peers/settled.js'

t.test(
  'a paused socket takes one piece, where another one takes them all, and goes on when it is resumed',
  async t => {
    const limited = await accepted(t, { noDelay: true })
    const other = await accepted(t, { noDelay: true })
    limitReadAhead(limited.socket)
    for (const { socket, client } of [limited, other]) {
      let bytes = ''
      socket.on('data', (chunk: Buffer) => {
        bytes += chunk.toString('latin1')
      })
      client.write('first')
      await arrived(client.socket, socket)
      t.equal(bytes, 'first', 'as it flows, it is read')
      socket.pause()
    }
    for (let i = 0; i < 200; i++) {
      limited.client.write('x')
      other.client.write('x')
      await arrived(other.client.socket, other.socket)
      // The limited one had its turn, too.
      await turns(1)
    }
    t.equal(other.socket.readableLength, 200)
    const read = limited.socket.readableLength
    t.ok(read < 20, `${read} bytes`)
    limited.socket.resume()
    await arrived(limited.client.socket, limited.socket)
    t.equal(limited.socket.bytesRead, 205)
  },
)
