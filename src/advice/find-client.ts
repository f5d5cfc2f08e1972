/** Finds the client for which a request is explained. */
import { holdsAddress, UNIX_CLIENT } from '../clients/identify.js'
import { formatPath, type Path } from '../config/problem.js'
import { serializeDuration, serializeSize } from '../config/quantities.js'
import type { Config } from '../config/schema.js'
import { CLIENT_LIMITS } from '../limits/client-limits.js'
import { type IpAddress, parseSocketAddress } from '../net/ip-address.js'
import type { TraceStep } from '../policy/trace.js'

type Entry = Config['clients'][number]

export interface KnownClient {
  readonly kind: 'known'
  readonly name: string
  /** Undefined when the entry was given by its name. */
  readonly address: string | undefined
  readonly path: Path
  readonly rules: Entry['rules']
  /** Its own mode, in place of the one at the top of the file. */
  readonly mode: Entry['mode']
  /** The key that determines its mode. */
  readonly modePath: Path
  /** The limits that its entry sets itself, each as the file may write it: `tunnels_per_client: 50`. */
  readonly ownLimits: readonly string[]
  /** The entries that contain the address, up to the one that decides. */
  readonly steps: readonly TraceStep[]
}

export interface UnknownClient {
  readonly kind: 'unknown'
  readonly address: string
  readonly steps: readonly TraceStep[]
  /** What is missing: name and password if an entry with the address requires them, or a certificate. */
  readonly lacks: 'credentials' | 'certificate' | 'entry'
}

/**
 * Finds the client of an explanation: an entry of `clients` by its name, or a client that connects from an address without
 * credentials.
 * @param text an IP address, the name of an entry, or `unix` for a Unix socket
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
      `expected an IP address or the name of a client (${names}), found ${JSON.stringify(text)}`,
    )
  }
  return knownClient(entry, index, undefined, [])
}

function knownClient(
  entry: Entry,
  index: number,
  address: string | undefined,
  steps: readonly TraceStep[],
): KnownClient {
  const { name, rules, mode } = entry
  const path: Path = ['clients', index]
  return {
    kind: 'known',
    name,
    address,
    path,
    rules,
    mode,
    modePath: mode === undefined ? ['mode'] : [...path, 'mode'],
    ownLimits: ownLimits(entry),
    steps,
  }
}

function ownLimits({ limits }: Pick<Entry, 'limits'>): string[] {
  return Object.entries(CLIENT_LIMITS).flatMap(([key, name]) => {
    const value = limits?.[name]
    if (value === undefined) return []
    if (name.endsWith('Ms')) return [`${key}: ${serializeDuration(value)}`]
    return [`${key}: ${name === 'bytesPerHour' ? serializeSize(value) : value}`]
  })
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
      return knownClient(entry, index, address, steps)
    }
  }
  return { kind: 'unknown', address, steps, lacks }
}
