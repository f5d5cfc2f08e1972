/**
 * For whom a request is explained: an entry of `clients` by its name, or whoever connects from an address and proves
 * nothing.
 */
import { holdsAddress, UNIX_CLIENT } from '../clients/identify.js'
import { formatPath, type Path } from '../config/problem.js'
import type { Config } from '../config/schema.js'
import { type IpAddress, parseSocketAddress } from '../net/ip-address.js'
import type { TraceStep } from '../policy/trace.js'

type Entry = Config['clients'][number]

export interface KnownClient {
  readonly kind: 'known'
  readonly name: string
  /** Undefined when the entry was asked for by its name. */
  readonly address: string | undefined
  readonly path: Path
  readonly rules: Entry['rules']
  /** What the entries that hold the address say, up to it. */
  readonly steps: readonly TraceStep[]
}

export interface UnknownClient {
  readonly kind: 'unknown'
  readonly address: string
  readonly steps: readonly TraceStep[]
  /** What could help: name and password where an entry that holds the address asks for them, or a certificate. */
  readonly lacks: 'credentials' | 'certificate' | 'entry'
}

/**
 * @param text an IP address, the name of an entry, or `unix`: without credentials over a Unix socket
 * @throws RangeError with one clause when it is neither
 */
export function findClient(clients: Config['clients'], text: string): KnownClient | UnknownClient {
  const index = clients.findIndex(({ name }) => name === text)
  const ip = text === UNIX_CLIENT && index === -1 ? UNIX_CLIENT : parseSocketAddress(text)
  if (ip !== undefined) return findByAddress(clients, text, ip)
  const entry = clients[index]
  if (entry === undefined) {
    const names = clients.map(({ name }) => name).join(', ') || 'none'
    throw new RangeError(
      `--client takes an IP address or the name of a client (${names}), found ${JSON.stringify(text)}`,
    )
  }
  const path = ['clients', index]
  return { kind: 'known', name: text, address: undefined, path, rules: entry.rules, steps: [] }
}

function findByAddress(
  clients: Config['clients'],
  address: string,
  ip: IpAddress | typeof UNIX_CLIENT,
): KnownClient | UnknownClient {
  const steps: TraceStep[] = []
  let lacks: UnknownClient['lacks'] = 'entry'
  for (const [index, entry] of clients.entries()) {
    const path: Path = ['clients', index]
    const say = (verdict: TraceStep['verdict'], text: string) =>
      steps.push({ verdict, path, text: `${formatPath(path)} ${entry.name} ${text}` })
    if (!holdsAddress(entry, ip)) continue
    if (entry.certificate !== undefined) {
      if (lacks === 'entry') lacks = 'certificate'
      say('skip', 'needs credentials (a client certificate)')
    } else if (entry.basic !== undefined) {
      lacks = 'credentials'
      say('skip', 'needs credentials (name and password)')
    } else {
      say('pass', `holds ${address}`)
      return { kind: 'known', name: entry.name, address, path, rules: entry.rules, steps }
    }
  }
  return { kind: 'unknown', address, steps, lacks }
}
