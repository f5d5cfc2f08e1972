/**
 * Identifies the client of a request: the first entry of `clients` all of whose conditions hold. Conditions are an address, a
 * certificate, and a name and password, with a list of names. Entries are ordered; a request that matches none is refused.
 *
 * Cheap conditions are checked first: a password is checked only if address and certificate match and no earlier entry has
 * decided. If addresses alone decide, identification is a single look-up.
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

/** An entry with the limits of its clients, which are its own or those of `limits`. */
interface LimitedEntry extends Omit<ClientEntry, 'limits'> {
  readonly limits: ClientLimits
}

/** The client of a request: the entry that decided, with its rules, mode, limits and conditions. */
export interface Client
  extends Pick<LimitedEntry, 'name' | 'rules' | 'mode' | 'limits' | 'basic' | 'certificate'> {
  /**
   * The authenticated user, for people to read: the user name of a password, or the holder of a certificate. Undefined if the
   * entry requires neither, whatever the request contains: that is not verified, and limits are not counted by it.
   */
  readonly user?: string | undefined
}

/** The sender of a request, before it is identified; an exchange is one. */
export interface Requester {
  /** IPv4-mapped IPv6 counts as IPv4. UNIX_CLIENT over a Unix socket. */
  readonly clientAddress: string
  readonly head: { readonly fields: FieldSection }
  readonly clientCertificate: ClientCertificate | undefined
  /** Aborted when nobody waits for the answer any more; undefined for the proxy itself, whose checks are never limited. */
  readonly signal: CancelSignal | undefined
}

export interface ClientsOptions {
  /** The users of every htpasswd_file of the entries, by its path in the entry. */
  readonly htpasswd: ReadonlyMap<string, Users>
  readonly passwords: PasswordVerifier
  /** The queue of the checks that `passwords` makes. */
  readonly queue: Pick<CheckQueue, 'create'>
  readonly attempts: Pick<FailedAttempts, 'waitSeconds' | 'begin'>
  /** Random bytes, generated once for each start. */
  readonly key: Uint8Array
  /** The limits of clients whose entry sets none of its own. */
  readonly limits: Config['limits']
}

/** The client address of a connection over a Unix socket. */
export const UNIX_CLIENT = 'unix'

/** The entries that match an address. */
interface AddressMatch {
  /** The entries whose addresses include it, up to the first one without further conditions. */
  readonly entries: readonly LimitedEntry[]
  /** The first of these entries, if it has no further conditions. */
  readonly client: LimitedEntry | undefined
  /** The source that failed attempts and connections are counted under. */
  readonly source: string
}

/** Most cached addresses; one more replaces the oldest, which then have to be looked up again. */
const MAX_CACHED = 10_000
const NO_MATCH: AddressMatch = { entries: [], client: undefined, source: '' }

export class Clients {
  readonly #entries: readonly LimitedEntry[]
  /** The user names of the entries that do not match all names of their file. */
  readonly #users: ReadonlyMap<LimitedEntry, ReadonlySet<string>>
  readonly #check: CredentialCheck
  readonly #attempts: ClientsOptions['attempts']
  readonly #matches = new BoundedMap<string, AddressMatch>(MAX_CACHED)

  constructor(entries: readonly ClientEntry[], { htpasswd, attempts, limits, ...check }: ClientsOptions) {
    this.#entries = entries.map(entry => ({ ...entry, limits: limitsOfEntry(entry, limits) }))
    this.#users = new Map(
      this.#entries.flatMap(entry => (entry.users ? [[entry, new Set(entry.users)]] : [])),
    )
    this.#check = new CredentialCheck(htpasswd, check)
    this.#attempts = attempts
  }

  /** Takes over the cached credentials of another configuration, as far as they are still correct. */
  adopt(before: Clients): void {
    this.#check.adopt(before.#check)
  }

  /**
   * @returns the client, or the refusal of the request (403, 407, 429, 503); a promise, which is never rejected, only if a
   *   password has to be checked: it resolves with undefined if the requester disconnected before that
   */
  identify(requester: Requester): Client | ProxyError | Promise<Client | ProxyError | undefined> {
    const { clientAddress } = requester
    const match = this.#matches.get(clientAddress) ?? this.#lookUp(clientAddress)
    return match.client ?? this.#ask(requester, match)
  }

  /**
   * The account that limits for each client are counted under.
   * @param client as the requester was identified
   */
  accountOf(client: Client, requester: Pick<Requester, 'clientAddress' | 'clientCertificate'>): string {
    return clientAccount(client, requester, this.sourceOf(requester.clientAddress))
  }

  /** The client that the address alone identifies, whatever a request contains. */
  clientAt(address: string): Client | undefined {
    return this.#match(address).entries.find(decidesByAddress)
  }

  /** The source that an address is counted under, together with other addresses of the same network. */
  sourceOf(address: string): string {
    return this.#match(address).source
  }

  #ask(
    requester: Requester,
    { entries, source }: AddressMatch,
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
    // Also before the cache is read: otherwise it would answer guesses that are not counted.
    const waitSeconds = this.#attempts.waitSeconds(source)
    if (waitSeconds > 0) return tooManyFailures(waitSeconds)
    if (credentials === 'malformed') {
      this.#attempts.begin(source, credentials)(true)
      return refuse(credentials)
    }
    const { user } = credentials
    const named = guarded.filter(entry => this.#users.get(entry)?.has(user) !== false)
    // Files of entries for other users come last: a correct password must not count as wrong, or be asked for again.
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

  #match(address: string): AddressMatch {
    return this.#matches.get(address) ?? this.#lookUp(address)
  }

  #lookUp(address: string): AddressMatch {
    const match = this.#findMatch(address)
    this.#matches.set(address, match)
    return match
  }

  #findMatch(address: string): AddressMatch {
    const ip = address === UNIX_CLIENT ? address : parseSocketAddress(address)
    if (ip === undefined) return NO_MATCH
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

/** Whether an entry includes this address; an entry without `cidr` and `unix` includes all. */
export function holdsAddress(
  { cidr, unix }: Pick<ClientEntry, 'cidr' | 'unix'>,
  ip: IpAddress | typeof UNIX_CLIENT,
): boolean {
  if (ip === UNIX_CLIENT) return cidr === undefined
  return unix !== true && (cidr === undefined || cidr.some(block => cidrContains(block, ip)))
}

/** Whether the address is the only condition of an entry. */
export function decidesByAddress({
  basic,
  certificate,
}: Pick<ClientEntry, 'basic' | 'certificate'>): boolean {
  return basic === undefined && certificate === undefined
}

/** The client of an entry without a password, with the holder of the certificate if the entry requires one. */
function withHolder(entry: LimitedEntry, { clientCertificate }: Requester): Client {
  if (entry.certificate === undefined) return entry
  return { ...entry, user: certificateHolder(clientCertificate) }
}

/** The refusal of a request for which a password would not help. */
function refuseForGood(requester: Requester, entries: readonly LimitedEntry[]): ProxyError {
  const { clientAddress: address, clientCertificate } = requester
  if (entries.length === 0)
    return address === UNIX_CLIENT ? unknownUnixClient(address) : unknownAddress(address)
  const error = certificateError(requester, entries)
  if (error !== undefined) return certificateInvalid(error)
  return certificateMissing(address, clientCertificate !== undefined, certificateHolder(clientCertificate))
}

/** Why the certificate is invalid, if one of these entries requires a certificate. */
function certificateError(
  { clientCertificate: certificate }: Requester,
  entries: readonly LimitedEntry[],
): string | undefined {
  if (certificate?.kind !== 'invalid') return undefined
  return entries.some(entry => entry.certificate !== undefined) ? certificate.error : undefined
}

/**
 * The account that limits for each client are counted under. An entry may be for many clients, so it is the entry together
 * with the user of a password, the holder of a certificate, or otherwise the network of the address.
 *
 * @param client as the requester was identified
 * @param source the source of its address
 */
export function clientAccount(
  client: Client,
  requester: Pick<Requester, 'clientCertificate'>,
  source: string,
): string {
  return `${client.name} ${clientUser(client, requester) ?? `address ${source}`}`
}

/**
 * Identifies an authenticated client within its entry: by the user name, or by the complete subject and names of its
 * certificate; undefined if only the address is known.
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
