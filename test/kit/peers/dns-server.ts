/** A DNS server, over UDP and TCP, that answers from a table and records its queries. */
import '../every-test.js'
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import packet from 'dns-packet'
import { Changes, until } from '../until.js'

export type Fault = 'silent' | 'SERVFAIL' | 'NXDOMAIN' | 'REFUSED'

/** The records of a name. A type that is omitted has no records. */
export interface NameRecords {
  readonly A?: readonly string[] | Fault
  readonly AAAA?: readonly string[] | Fault
  readonly CNAME?: string
  /** Seconds; 60 by default. */
  readonly ttl?: number
  /** Truncated over UDP, without records; complete over TCP. */
  readonly truncated?: boolean
}

/** By name in lower case; other names are NXDOMAIN. */
export type Zone = Readonly<Record<string, NameRecords | Fault>>

export interface DnsQuery {
  readonly name: string
  readonly type: string
  readonly transport: 'udp' | 'tcp'
}

export interface DnsServerOptions {
  /** 127.0.0.1 by default. */
  readonly host?: string
  /** A free port by default. */
  readonly port?: number
  readonly zone?: Zone | Fault
}

export interface TestDnsServer {
  readonly host: string
  readonly port: number
  /** Its value for `dns.servers`. */
  readonly address: string
  /** Replaces its table; a single fault is its answer to every query. */
  zone: Zone | Fault
  /** Every query so far, in the order received. */
  readonly queries: readonly DnsQuery[]
  /** Waits until this many queries were received. */
  asked(count: number): Promise<void>
  /** Answers the UDP queries that it has ignored so far, from its current table. */
  answerLate(): void
  close(): Promise<void>
}

const RCODES = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const
const MAX_ALIASES = 8

interface Reply {
  readonly rcode: number
  readonly answers: packet.Answer[]
  readonly truncated: boolean
}

/** The caller must close it. */
export async function startDnsServer(options: DnsServerOptions = {}): Promise<TestDnsServer> {
  const { host = '127.0.0.1' } = options
  const queries: DnsQuery[] = []
  const changes = new Changes()

  const answer = (message: Buffer, transport: DnsQuery['transport']): Buffer | undefined => {
    const [question] = packet.decode(message).questions ?? []
    if (question === undefined) return undefined
    queries.push({ name: question.name, type: question.type, transport })
    changes.notify()
    return responseTo(message, question, transport)
  }

  const responseTo = (
    message: Buffer,
    question: packet.Question,
    transport: DnsQuery['transport'],
  ): Buffer | undefined => {
    const reply = replyTo(question, running.zone)
    if (reply === undefined) return undefined
    const truncated = reply.truncated && transport === 'udp'
    const flags = packet.RECURSION_DESIRED | packet.RECURSION_AVAILABLE | reply.rcode
    return packet.encode({
      type: 'response',
      id: packet.decode(message).id,
      flags: truncated ? flags | packet.TRUNCATED_RESPONSE : flags,
      questions: [question],
      answers: truncated ? [] : reply.answers,
    })
  }

  const unanswered: { readonly message: Buffer; readonly port: number; readonly address: string }[] = []
  const { udp, tcp, port } = await bind(host, options.port ?? 0)
  const connections = new Set<Socket>()
  udp.on('message', (message, { address, port }) => {
    const reply = answer(message, 'udp')
    if (reply === undefined) unanswered.push({ message, port, address })
    else udp.send(reply, port, address)
  })
  tcp.on('connection', socket => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
    socket.on('error', () => {})
    let rest: Buffer = Buffer.alloc(0)
    socket.on('data', chunk => {
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
        const end = 2 + rest.readUInt16BE(0)
        const reply = answer(rest.subarray(2, end), 'tcp')
        rest = rest.subarray(end)
        if (reply === undefined) continue
        const length = Buffer.alloc(2)
        length.writeUInt16BE(reply.length)
        socket.write(Buffer.concat([length, reply]))
      }
    })
  })

  let closed: Promise<void> | undefined
  const close = async (): Promise<void> => {
    changes.end()
    for (const socket of connections) socket.destroy()
    await Promise.all([
      new Promise<void>(resolve => udp.close(() => resolve())),
      new Promise<void>(resolve => tcp.close(() => resolve())),
    ])
  }
  const running: TestDnsServer = {
    host,
    port,
    address: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
    zone: options.zone ?? {},
    queries,
    asked: async count => {
      const asked = () => queries.length >= count
      await until(`${count} queries to the DNS server`, asked, { changes, seen: () => queries })
    },
    answerLate: () => {
      for (const { message, port, address } of unanswered.splice(0)) {
        const [question] = packet.decode(message).questions ?? []
        const reply = question && responseTo(message, question, 'udp')
        if (reply !== undefined) udp.send(reply, port, address)
      }
    },
    close: () => {
      closed ??= close()
      return closed
    },
  }
  return running
}

/** @returns undefined for no answer */
function replyTo({ name, type }: packet.Question, zone: Zone | Fault): Reply | undefined {
  const answers: packet.Answer[] = []
  let truncated = false
  for (let at = name.toLowerCase(); answers.length <= MAX_ALIASES; ) {
    const under = recordsUnder(at, zone)
    const found = (type === 'A' || type === 'AAAA' ? under[type] : undefined) ?? []
    if (found === 'silent') return undefined
    if (typeof found === 'string') return { rcode: RCODES[found], answers, truncated }
    truncated ||= under.truncated ?? false
    const ttl = under.ttl ?? 60
    if (under.CNAME === undefined) {
      for (const data of found) answers.push({ type: type === 'A' ? 'A' : 'AAAA', name: at, ttl, data })
      return { rcode: 0, answers, truncated }
    }
    answers.push({ type: 'CNAME', name: at, ttl, data: under.CNAME })
    at = under.CNAME
  }
  return { rcode: RCODES.SERVFAIL, answers: [], truncated }
}

function recordsUnder(name: string, zone: Zone | Fault): NameRecords {
  const entry = typeof zone === 'string' ? zone : (zone[name] ?? 'NXDOMAIN')
  return typeof entry === 'string' ? { A: entry, AAAA: entry } : entry
}

/** The same port for UDP and TCP, which must be free for both. */
async function bind(host: string, port: number): Promise<{ udp: UdpSocket; tcp: Server; port: number }> {
  for (let attempt = 1; ; attempt++) {
    const tcp = createServer()
    tcp.listen(port, host)
    await once(tcp, 'listening')
    const bound = tcp.address()
    if (bound === null || typeof bound === 'string') throw new Error('no port')
    const udp = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    udp.bind(bound.port, host)
    try {
      await once(udp, 'listening')
      return { udp, tcp, port: bound.port }
    } catch (error) {
      udp.close()
      tcp.close()
      if (port !== 0 || attempt === 10) throw error
    }
  }
}
