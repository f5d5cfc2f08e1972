/**
 * The same bytes are given to our reader, to Node's and to undici's. What our reader accepts must mean the same to the
 * others, and if only one of them accepts a response, the list below says why.
 */
import { request as httpRequest } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { Client, type Dispatcher } from 'undici'
import { type ReadResponse, transcribeResponses } from '../kit/peers/response-transcript.js'
import { mutatedResponse, RESPONSES } from './responses.js'

/** What our reader refuses and others may accept: by our error, with the section that allows or requires that. */
const WE_ARE_STRICTER: readonly (readonly [RegExp, string])[] = [
  [/bare CR or LF/, 'RFC 9112 §2.2'],
  [/bad status line/, 'RFC 9112 §2.3, §4: HTTP/1.0 and HTTP/1.1 alone, and three digits'],
  [/status code \d+/, 'RFC 9110 §15: none below 100'],
  [/protocol switched/, 'RFC 9110 §15.2.2: 101 answers an Upgrade'],
  [/folded field line/, 'RFC 9112 §5.2'],
  [/bad field name|without a colon/, 'RFC 9112 §5.1'],
  [/control character/, 'RFC 9110 §5.5'],
  [/Content-Length/, 'RFC 9112 §6.3'],
  [/transfer_coding/, 'RFC 9112 §6.1'],
  [/chunk/, 'RFC 9112 §7.1'],
  [/field not allowed in trailers/, 'RFC 9110 §6.5.1'],
  [/response ended early|closed without a response/, 'RFC 9112 §8'],
]

/** Entries of the corpus that others refuse, with the section that allows them. */
const THEY_ARE_STRICTER: readonly {
  readonly peer: string
  readonly input: RegExp
  readonly section: string
}[] = [{ peer: 'undici', input: /^HTTP\/1\.1 304 [\s\S]*Content-Length: [1-9]/, section: 'RFC 9110 §8.6' }]

interface Read {
  readonly status: number
  readonly fields: readonly string[]
  readonly content: string
}

type Peer = (port: number) => Promise<Read | undefined>

const node: Peer = port =>
  new Promise(resolve => {
    const request = httpRequest({ port, host: '127.0.0.1', agent: false }, response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', () => resolve(undefined))
      response.on('end', () => {
        const content = Buffer.concat(chunks).toString('latin1')
        const { statusCode: status = 0, rawHeaders: fields } = response
        resolve(response.complete ? { status, fields, content } : undefined)
      })
    })
    request.on('error', () => resolve(undefined))
    request.on('upgrade', (_response, socket) => {
      socket.destroy()
      resolve(undefined)
    })
    request.on('close', () => resolve(undefined))
    request.end()
  })

const undici: Peer = async port => {
  const client = new Client(`http://127.0.0.1:${port}`, { pipelining: 1 })
  const read = await new Promise<Read | undefined>(resolve => {
    const chunks: Buffer[] = []
    let head: Pick<Read, 'status' | 'fields'> | undefined
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: () => {},
      onResponseStart: (controller, status) => {
        const raw = (controller.rawHeaders ?? []) as readonly (Buffer | string)[]
        if (status < 200) return
        // It does not remove white space after a value, which is not part of the value (RFC 9110 §5.5).
        const fields = raw.map(text =>
          Buffer.from(text as string, 'latin1')
            .toString('latin1')
            .replace(/[ \t]+$/, ''),
        )
        head = { status, fields }
      },
      onResponseData: (_controller, chunk: Buffer) => void chunks.push(Buffer.from(chunk)),
      onResponseEnd: () => resolve(head && { ...head, content: Buffer.concat(chunks).toString('latin1') }),
      onResponseError: () => resolve(undefined),
    }
    client.dispatch({ method: 'GET', path: '/' }, handler)
  })
  await client.destroy()
  return read
}

function ours(input: Buffer): { response?: ReadResponse; error: string } {
  const { responses, error = '' } = transcribeResponses([input])
  const [response] = responses
  return response?.trailers === undefined ? { error } : { response, error }
}

let served: Buffer = Buffer.alloc(0)
const server = createServer(socket => {
  socket.on('error', () => {})
  socket.once('data', () => socket.end(served))
})
await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => new Promise(resolve => server.close(resolve)))
const { port } = server.address() as AddressInfo

for (const [name, peer] of Object.entries({ node, undici })) {
  t.test(`${name} reads valid responses in the same way (RFC 9112 §6.3)`, async t => {
    for (const input of RESPONSES) {
      served = input
      const { response, error } = ours(input)
      const theirs = await peer(port)
      t.same(error, '')
      const text = input.toString('latin1')
      const allowed = THEY_ARE_STRICTER.find(row => row.peer === name && row.input.test(text))
      if (allowed !== undefined) {
        t.equal(theirs, undefined, allowed.section)
        continue
      }
      t.same(theirs, { status: response?.status, fields: response?.fields, content: response?.content })
    }
  })

  t.test(
    `if both our parser and ${name} accept a damaged response, they read it in the same way (RFC 9112 §11.1)`,
    async t => {
      let both = 0
      const property = fc.asyncProperty(mutatedResponse, async input => {
        served = input
        const { response, error } = ours(input)
        const theirs = await peer(port)
        if (theirs === undefined) return
        if (response === undefined) {
          if (!WE_ARE_STRICTER.some(([ours]) => ours.test(error))) throw new Error(`refused for ${error}`)
          return
        }
        both += 1
        const { status, fields, content } = response
        if (fc.stringify(theirs) !== fc.stringify({ status, fields, content })) {
          throw new Error(`${fc.stringify({ status, fields, content })} is not ${fc.stringify(theirs)}`)
        }
      })
      await t.resolves(fc.assert(property, { numRuns: 1500 }))
      t.ok(both > 100, `${both} responses compared`)
    },
  )
}
