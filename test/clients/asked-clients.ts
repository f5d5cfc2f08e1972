/** Clients whose passwords the test checks, and what is asked of them. */
import { FieldSection } from '../../src/http/field-section.js'
import type { ClientCertificate } from '../../src/tls/client-certificate.js'
import type { CheckQueue, Users } from '../../src/clients/credential-check.js'
import { FailedAttempts } from '../../src/clients/failed-attempts.js'
import { type Client, type ClientEntry, Clients, type Requester } from '../../src/clients/identify.js'
import { parseConfig } from '../../src/config/load.js'
import { ProxyError } from '../../src/errors.js'
import type { CancelSignal } from '../../src/exchange.js'
import { parseCidr } from '../../src/net/cidr.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { wideQueue } from '../kit/fakes/wide-queue.js'
import { AskedVerifier, usersOf } from './asked-verifier.js'

const DEFAULT_LIMITS = parseConfig('version: 1\n').config.limits
const FILES = { team: usersOf({ ann: 'one', bob: 'two' }), guests: usersOf({ eve: 'three', bob: 'four' }) }

/** `ann:one` and `bob:two` are of the team, `eve:three` and `bob:four` guests. */
export interface Conditions {
  readonly cidr?: readonly string[]
  readonly unix?: true
  readonly file?: keyof typeof FILES
  readonly users?: readonly string[]
  readonly certificate?: ClientEntry['certificate']
}

export function entry(name: string, { cidr, unix, file, users, certificate }: Conditions): ClientEntry {
  return {
    name,
    rules: 'all',
    ...(cidr === undefined ? {} : { cidr: cidr.map(parseCidr) }),
    ...(unix === undefined ? {} : { unix }),
    ...(file === undefined ? {} : { basic: { htpasswdFile: file } }),
    ...(users === undefined ? {} : { users }),
    ...(certificate === undefined ? {} : { certificate }),
  }
}

export const byAddress = (name: string, ...cidr: string[]) => entry(name, { cidr })

const NEVER = new AbortController().signal

type Answer = ReturnType<Clients['identify']>

/** All that is asked is checked at once. */
export function clientsOf(...entries: ClientEntry[]) {
  return clientsBehind(wideQueue(), ...entries)
}

export function clientsBehind(queue: CheckQueue, ...entries: ClientEntry[]) {
  const passwords = new AskedVerifier()
  const clock = new ManualClock()
  const clients = new Clients(entries, {
    htpasswd: new Map<string, Users>(Object.entries(FILES)),
    passwords,
    queue,
    attempts: new FailedAttempts(clock.now),
    key: Buffer.alloc(32, 1),
    limits: DEFAULT_LIMITS,
  })
  const identify = (
    address: string,
    fields: readonly string[] = [],
    certificate?: ClientCertificate,
    signal: CancelSignal = NEVER,
  ): Answer =>
    clients.identify({
      clientAddress: address,
      head: { fields: FieldSection.of(fields) },
      clientCertificate: certificate,
      signal,
    } satisfies Requester)
  /** The client's name, or status and reason of the refusal, once every password is checked. */
  const ask = async (address: string, fields?: readonly string[], certificate?: ClientCertificate) => {
    const answer = identify(address, fields, certificate)
    await passwords.answer()
    return said(await answer)
  }
  return { clients, identify, ask, passwords, clock }
}

/** @param answer undefined for whoever has left */
export function said(answer: Client | ProxyError | undefined): string {
  if (answer === undefined) return 'gone'
  return answer instanceof ProxyError ? `${answer.status} ${answer.reason}` : answer.name
}

export const as = (userPass: string): string[] => [
  'Proxy-Authorization',
  `Basic ${Buffer.from(userPass).toString('base64')}`,
]
export const MALFORMED = ['Proxy-Authorization', 'Basic ?']
