/** Long-lived tunnels that carry a few bytes from time to time; a lost one is opened again. */
import { connect, type Socket } from 'node:net'
import type { Failure } from './soak-fleet.js'
import { Changes, until } from '../kit/until.js'

/** Milliseconds before a lost tunnel is opened again. */
const PAUSE_MS = 20
const HEAD = /^HTTP\/1\.1 200 [^\r\n]*\r\n\r\n/

interface Tunnel {
  readonly socket: Socket
  readonly connectedAt: number
  port: number | undefined
  stands: boolean
  /** Received bytes that have not been checked, and the expected ones. */
  received: string
  expected: string
}

export class SoakTunnels {
  readonly failures: Failure[] = []
  readonly #proxyPort: number
  readonly #authority: string
  readonly #tunnels = new Set<Tunnel>()
  readonly #changes = new Changes()
  #timer: NodeJS.Timeout | undefined
  #count = 0
  #messages = 0
  #echoed = 0
  #closing = false

  constructor(proxyPort: number, originPort: number) {
    this.#proxyPort = proxyPort
    this.#authority = `127.0.0.1:${originPort}`
  }

  get echoed(): number {
    return this.#echoed
  }

  /** Opens this many tunnels, and sends something through each of them every `everyMs`. */
  start(count: number, everyMs: number): void {
    this.#count = count
    for (let i = 0; i < count; i++) this.#open()
    this.#timer = setInterval(() => this.#sayAll(), everyMs)
  }

  /** Resolves when all tunnels are established, and everything sent has been echoed. */
  async quiet(): Promise<void> {
    clearInterval(this.#timer)
    const quiet = () => this.#tunnels.size >= this.#count && [...this.#tunnels].every(isQuiet)
    const seen = () => `${[...this.#tunnels].filter(isQuiet).length} of ${this.#count}`
    await until('all tunnels to be quiet', quiet, { changes: this.#changes, seen })
  }

  /** Sends something through each tunnel, and resolves when it has been echoed. */
  async echo(): Promise<void> {
    this.#sayAll()
    await this.quiet()
  }

  /** Half-closes each tunnel, and resolves when the other side has closed it, too. */
  async close(): Promise<void> {
    this.#closing = true
    clearInterval(this.#timer)
    for (const { socket } of this.#tunnels) socket.end()
    const seen = () => this.#tunnels.size
    await until('all tunnels to end', () => seen() === 0, { changes: this.#changes, seen })
  }

  destroy(): void {
    this.#closing = true
    clearInterval(this.#timer)
    for (const { socket } of this.#tunnels) socket.destroy()
  }

  #open(): void {
    if (this.#closing) return
    const socket = connect({ host: '127.0.0.1', port: this.#proxyPort, noDelay: true, allowHalfOpen: true })
    const tunnel: Tunnel = {
      socket,
      connectedAt: performance.now(),
      port: undefined,
      stands: false,
      received: '',
      expected: '',
    }
    this.#tunnels.add(tunnel)
    let what = 'it was closed'
    socket.on('connect', () => {
      tunnel.port = socket.localPort
      socket.write(`CONNECT ${this.#authority} HTTP/1.1\r\nHost: ${this.#authority}\r\n\r\n`)
    })
    socket.setEncoding('latin1').on('data', (text: string) => {
      tunnel.received += text
      what = this.#look(tunnel) ?? what
    })
    socket.on('error', error => {
      what = error.message
    })
    socket.on('end', () => socket.destroy())
    socket.on('close', () => {
      this.#tunnels.delete(tunnel)
      if (!this.#closing) {
        this.#fail(tunnel, what)
        setTimeout(() => this.#open(), PAUSE_MS)
      } else if (!tunnel.stands || tunnel.expected !== '') this.#fail(tunnel, what)
      this.#changes.notify()
    })
  }

  /** @returns what is wrong with the received bytes; the tunnel is closed then */
  #look(tunnel: Tunnel): string | undefined {
    if (!tunnel.stands) {
      if (!tunnel.received.includes('\r\n\r\n')) return undefined
      const [head] = HEAD.exec(tunnel.received) ?? []
      if (head === undefined) {
        tunnel.socket.destroy()
        return `answered ${tunnel.received.slice(0, 100)}`
      }
      tunnel.stands = true
      tunnel.received = tunnel.received.slice(head.length)
    }
    if (!tunnel.expected.startsWith(tunnel.received)) {
      tunnel.socket.destroy()
      return `got ${tunnel.received.slice(0, 100)}`
    }
    tunnel.expected = tunnel.expected.slice(tunnel.received.length)
    tunnel.received = ''
    if (tunnel.expected === '') {
      this.#echoed += 1
      this.#changes.notify()
    }
    return undefined
  }

  #sayAll(): void {
    for (const tunnel of this.#tunnels) {
      if (!tunnel.stands) continue
      const message = `message ${this.#messages++}\n`
      tunnel.expected += message
      tunnel.socket.write(message)
    }
  }

  #fail({ stands, port, connectedAt }: Tunnel, what: string): void {
    this.failures.push({
      what: `${stands ? 'tunnel' : 'CONNECT'}: ${what}`,
      clientPort: port,
      connectedAt,
      failedAt: performance.now(),
      path: undefined,
    })
  }
}

function isQuiet({ stands, expected }: Tunnel): boolean {
  return stands && expected === ''
}
