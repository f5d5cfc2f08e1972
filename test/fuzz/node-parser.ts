/** Reads requests with Node's own HTTP server, from a socket on the loopback interface. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'

export interface NodeMessage {
  readonly method: string
  readonly target: string
  readonly minor: number
  readonly fields: readonly string[]
  readonly content: string
  readonly trailers: readonly string[]
}

export class NodeParser {
  readonly #server: Server
  #received: (message: NodeMessage) => void = () => {}

  private constructor(server: Server) {
    this.#server = server
    server.maxHeadersCount = 0
    const receive = (request: IncomingMessage, answer: () => void) => {
      const chunks: Buffer[] = []
      request.on('error', () => {})
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        this.#received({
          method: request.method ?? '',
          target: request.url ?? '',
          minor: request.httpVersionMinor,
          fields: request.rawHeaders,
          content: Buffer.concat(chunks).toString('latin1'),
          trailers: request.rawTrailers,
        })
        answer()
      })
    }
    for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) {
      server.on(event, (request, response) => receive(request, () => response.end()))
    }
    // Node parses nothing more from here on, so the rest of such a connection is not compared.
    server.on('connect', (_request, socket) => socket.destroy())
    server.on('upgrade', (_request, socket) => socket.destroy())
    server.on('clientError', (_error, socket) => socket.destroy())
  }

  static async listen(): Promise<NodeParser> {
    const server = createServer({ requireHostHeader: false, keepAliveTimeout: 0, insecureHTTPParser: false })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    return new NodeParser(server)
  }

  /** The complete messages that Node reads from these bytes, up to the first error or the end. */
  async read(input: Buffer): Promise<NodeMessage[]> {
    const messages: NodeMessage[] = []
    this.#received = message => messages.push(message)
    const { port } = this.#server.address() as AddressInfo
    await new Promise<void>(resolve => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      socket.on('error', () => {})
      socket.on('close', () => resolve())
      socket.resume()
      socket.end(input)
    })
    return messages
  }

  async close(): Promise<void> {
    await new Promise(resolve => this.#server.close(resolve))
  }
}
