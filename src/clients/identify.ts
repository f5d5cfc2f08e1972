/**
 * Who is asking: the first client entry all of whose conditions hold, address, certificate, and name and password, with a
 * name that it is for. Entries are ordered, and whoever meets none of them is nobody's client.
 *
 * What costs least is asked first: a password is checked only where address and certificate fit and no entry before
 * has decided. Where addresses alone decide, all of it is one look-up.
 */
import type { Config } from '../config/schema.js'
import { type ProxyError, toProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import { type BasicCredentials, parseProxyAuthorization } from '../http/basic-credentials.js'
import type { FieldSection } from '../http/field-section.js'
import { BoundedMap } from '../limits/bounded-map.js'
import { type ClientLimits, limitsOfEntry } from '../limits/client-limits.js'
import { cidrContains } from '../net/cidr.js'
import { type IpAddress, parseSocketAddress } from '../net/ip-address.js'
import { certificateHolder, type ClientCertificate, matchesCertificate } from '../tls/client-certificate.js'
import { type CheckQueue, CredentialCheck, type PasswordVerifier, type Users } from './credential-check.js'
import { attemptSource, type FailedAttempts } from './failed-attempts.js'
import {
  type CredentialFault,
  certificateInvalid,
  certificateMissing,
  credentialsRefused,
  tooManyFailures,
  unknownAddress,
  unknownUnixClient,
  unlistedUser,
} from './refusals.js'

export type ClientEntry = Config['clients'][number]

/** An entry with the limits that its clients meet, its own or those of the configuration. */
interface LimitedEntry extends Omit<ClientEntry, 'limits'> {
  readonly limits: ClientLimits
}

/** The entry that decided: its name, the rules it may use, and what had to be proved to it. */
export interface Client
  extends Pick<LimitedEntry, 'name' | 'rules' | 'mode' | 'limits' | 'basic' | 'certificate'> {
  /**
   * Who has proved that, for people to read: the name that a password belongs to, or the holder of a certificate. Undefined
   * where the entry asks for neither, whatever the request shows: nobody has checked that, and limits do not count by it.
   */
  readonly user?: string | undefined
}

/** What is known of whoever sent a request; an exchange is one. */
export interface Requester {
  /** IPv4 in IPv6 is judged as IPv4. UNIX_CLIENT over a Unix socket. */
  readonly clientAddress: string
  readonly head: { readonly fields: FieldSection }
  readonly clientCertificate: ClientCertificate | undefined
  /** That nobody waits for the answer any more; undefined where the proxy itself does, which is never told to wait. */
  readonly signal: CancelSignal | undefined
}

export interface ClientsOptions {
  /** Names and hashes of every htpasswd_file of the entries, by its path there. */
  readonly htpasswd: ReadonlyMap<string, Users>
  readonly passwords: PasswordVerifier
  /** What checks wait in for `passwords`. */
  readonly queue: Pick<CheckQueue, 'create'>
  readonly attempts: Pick<FailedAttempts, 'waitSeconds' | 'begin'>
  /** Random bytes, made once a start. */
  readonly key: Uint8Array
  /** What clients meet whose entry sets no limits of its own. */
  readonly limits: Config['limits']
}

/** In place of the address of a client that has none. */
export const UNIX_CLIENT = 'unix'

/** What an address means. */
interface Place {
  /** Those whose blocks hold it, up to the first that asks for nothing more. */
  readonly entries: readonly LimitedEntry[]
  /** The first of them, where it asks for nothing more. */
  readonly client: LimitedEntry | undefined
  /** What failed attempts and connections are counted under. */
  readonly source: string
}

/** Addresses remembered; the oldest are forgotten for further ones, which costs one look-up each. */
const MAX_REMEMBERED = 10_000
const NOWHERE: Place = { entries: [], client: undefined, source: '' }

export class Clients {
  readonly #entries: readonly LimitedEntry[]
  /** Of the entries that are not for all names of their file. */
  readonly #users: ReadonlyMap<LimitedEntry, ReadonlySet<string>>
  readonly #check: CredentialCheck
  readonly #attempts: ClientsOptions['attempts']
  readonly #places = new BoundedMap<string, Place>(MAX_REMEMBERED)

  constructor(entries: readonly ClientEntry[], { htpasswd, attempts, limits, ...check }: ClientsOptions) {
    this.#entries = entries.map(entry => ({ ...entry, limits: limitsOfEntry(entry, limits) }))
    this.#users = new Map(
      this.#entries.flatMap(entry => (entry.users ? [[entry, new Set(entry.users)]] : [])),
    )
    this.#check = new CredentialCheck(htpasswd, check)
    this.#attempts = attempts
  }

  /** Remembers the credentials that are right here as they were in another configuration. */
  adopt(before: Clients): void {
    this.#check.adopt(before.#check)
  }

  /**
   * @returns the client, or how the request is refused (403, 407, 429, 503); a promise, which never rejects, only
   *   when a password has to be checked: undefined when whoever asks has left before it was
   */
  identify(requester: Requester): Client | ProxyError | Promise<Client | ProxyError | undefined> {
    const { clientAddress } = requester
    const place = this.#places.get(clientAddress) ?? this.#lookUp(clientAddress)
    return place.client ?? this.#ask(requester, place)
  }

  /**
   * What limits for each client are counted under.
   * @param client what the requester was found to be
   */
  accountOf(client: Client, requester: Pick<Requester, 'clientAddress' | 'clientCertificate'>): string {
    return clientAccount(client, requester, this.sourceOf(requester.clientAddress))
  }

  /** The client that the address alone makes it, whatever a request would say. */
  clientAt(address: string): Client | undefined {
    return this.#place(address).entries.find(decidesByAddress)
  }

  /** What an address is counted under, together with others of the same client. */
  sourceOf(address: string): string {
    return this.#place(address).source
  }

  #ask(
    requester: Requester,
    { entries, source }: Place,
  ): Client | ProxyError | Promise<Client | ProxyError | undefined> {
    const open = entries.filter(
      ({ certificate }) =>
        certificate === undefined || matchesCertificate(certificate, requester.clientCertificate),
    )
    const end = open.findIndex(({ basic }) => basic === undefined)
    const guarded = end === -1 ? open : open.slice(0, end)
    const otherwise = open[end] && withHolder(open[end], requester)
    if (guarded.length === 0) return otherwise ?? refuseForGood(requester, entries)
    const refuse = (fault: CredentialFault): Client | ProxyError =>
      otherwise ?? credentialsRefused(fault, certificateError(requester, entries))

    const credentials = parseProxyAuthorization(requester.head.fields)
    if (credentials === 'missing') return refuse(credentials)
    // Before memory is asked, too: it would answer guesses that nobody counts.
    const waitSeconds = this.#attempts.waitSeconds(source)
    if (waitSeconds > 0) return tooManyFailures(waitSeconds)
    if (credentials === 'malformed') {
      this.#attempts.begin(source, credentials)(true)
      return refuse(credentials)
    }
    const { user } = credentials
    const named = guarded.filter(entry => this.#users.get(entry)?.has(user) !== false)
    // The files of entries for others are asked last: a right password is none to count as wrong, or to ask for again.
    const files = [...new Set([...named, ...guarded].flatMap(({ basic }) => basic?.htpasswdFile ?? []))]
    const decide = (file: string | undefined): Client | ProxyError => {
      if (file === undefined) return refuse('wrong')
      const entry = named.find(({ basic }) => basic?.htpasswdFile === file)
      if (entry === undefined) return otherwise ?? unlistedUser(user, certificateError(requester, entries))
      return { ...entry, user }
    }
    const digest = this.#check.digest(files, credentials)
    const known = this.#check.remembered(digest)
    if (known !== undefined) return decide(known)
    const { signal } = requester
    return this.#find(source, digest, files, credentials, signal).then(decide, (error: unknown) =>
      signal?.aborted === true && error === signal.reason ? undefined : toProxyError(error),
    )
  }

  async #find(
    source: string,
    digest: string,
    files: readonly string[],
    credentials: BasicCredentials,
    signal: CancelSignal | undefined,
  ): Promise<string | undefined> {
    const end = this.#attempts.begin(source, digest)
    let wrong = false
    try {
      const client = signal === undefined ? undefined : source
      const file = await this.#check.find(digest, files, credentials, { client, signal })
      wrong = file === undefined
      return file
    } finally {
      end(wrong)
    }
  }

  #place(address: string): Place {
    return this.#places.get(address) ?? this.#lookUp(address)
  }

  #lookUp(address: string): Place {
    const place = this.#placeOf(address)
    this.#places.set(address, place)
    return place
  }

  #placeOf(address: string): Place {
    const ip = address === UNIX_CLIENT ? address : parseSocketAddress(address)
    if (ip === undefined) return NOWHERE
    const holding = this.#entries.filter(entry => holdsAddress(entry, ip))
    const end = holding.findIndex(decidesByAddress)
    const source = ip === UNIX_CLIENT ? ip : attemptSource(ip)
    return {
      entries: end === -1 ? holding : holding.slice(0, end + 1),
      client: end === 0 ? holding[0] : undefined,
      source,
    }
  }
}

/** Whether an entry is for clients with this address; one that names neither is for all. */
export function holdsAddress(
  { cidr, unix }: Pick<ClientEntry, 'cidr' | 'unix'>,
  ip: IpAddress | typeof UNIX_CLIENT,
): boolean {
  if (ip === UNIX_CLIENT) return cidr === undefined
  return unix !== true && (cidr === undefined || cidr.some(block => cidrContains(block, ip)))
}

/** Whether whoever connects from its addresses needs nothing else. */
export function decidesByAddress({
  basic,
  certificate,
}: Pick<ClientEntry, 'basic' | 'certificate'>): boolean {
  return basic === undefined && certificate === undefined
}

/** The entry, met without a password, with the holder of the certificate that it asks for. */
function withHolder(entry: LimitedEntry, { clientCertificate }: Requester): Client {
  if (entry.certificate === undefined) return entry
  return { ...entry, user: certificateHolder(clientCertificate) }
}

/** The answer where no password can help. */
function refuseForGood(requester: Requester, entries: readonly LimitedEntry[]): ProxyError {
  const { clientAddress: address, clientCertificate } = requester
  if (entries.length === 0)
    return address === UNIX_CLIENT ? unknownUnixClient(address) : unknownAddress(address)
  const error = certificateError(requester, entries)
  if (error !== undefined) return certificateInvalid(error)
  return certificateMissing(address, clientCertificate !== undefined, certificateHolder(clientCertificate))
}

/** What is wrong with a certificate that might have met the condition of one of these. */
function certificateError(
  { clientCertificate: certificate }: Requester,
  entries: readonly LimitedEntry[],
): string | undefined {
  if (certificate?.kind !== 'invalid') return undefined
  return entries.some(entry => entry.certificate !== undefined) ? certificate.error : undefined
}

/**
 * What limits for each client are counted under. Entries may let in many: so it is the entry, and in it the user for
 * those known by a password, the holder for those known by a certificate, and otherwise the network that they connect from.
 *
 * @param client what the requester was found to be
 * @param source what failed attempts of its address are counted under
 */
export function clientAccount(
  client: Client,
  requester: Pick<Requester, 'clientCertificate'>,
  source: string,
): string {
  return `${client.name} ${clientUser(client, requester) ?? `address ${source}`}`
}

/**
 * Who of an entry a client is, told apart from all others: its user or the holder of its certificate, by all that is in
 * that; undefined where an address is all it shows.
 */
export function clientUser(
  { basic, certificate: expected, user }: Client,
  { clientCertificate: certificate }: Pick<Requester, 'clientCertificate'>,
): string | undefined {
  if (basic !== undefined) return `user ${user}`
  if (expected === undefined || certificate?.kind !== 'valid') return undefined
  const { subject, names } = certificate
  return `certificate ${JSON.stringify([subject, names])}`
}
