/**
 * Access control of the admin listener: who may read, and who may change something.
 *
 * A web page can make a browser on the same machine send requests here, under a name that the page's owner controls (DNS
 * rebinding); so Host has to be localhost, an IP literal or a configured name. A page of another origin can also make a
 * browser send a POST; so a request that changes anything has to come from the status page or from no page at all, and with
 * a Content-Type that a page cannot send to another origin without a preflight (Fetch Metadata; Fetch §3.3, "CORS protocol").
 *
 * Beyond loopback, the configuration gives the addresses, names and passwords that are accepted (RFC 7617). Wrong passwords
 * are counted and delayed like those of the proxy's clients.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import {
  type CheckQueue,
  CredentialCheck,
  type PasswordVerifier,
  type Users,
} from '../clients/credential-check.js'
import { attemptSource, FailedAttempts } from '../clients/failed-attempts.js'
import { authenticationBusy, tooManyFailures } from '../clients/refusals.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { ProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import { type Authority, parseAuthority } from '../http/authority.js'
import { type BasicCredentials, parseBasic } from '../http/basic-credentials.js'
import { cidrContains } from '../net/cidr.js'
import { parseSocketAddress } from '../net/ip-address.js'

/** What the configuration in force says about the admin listener. */
export interface AdminRules {
  /** Canonical names that Host may have besides localhost. */
  readonly hosts: readonly string[]
  readonly access: Config['listen']['adminAccess']
  /** User names and bcrypt hashes of every htpasswd file, by its path as written in the configuration. */
  readonly htpasswd: ReadonlyMap<string, Users>
}

export function adminRules({ config: { listen }, files }: Pick<Loaded, 'config' | 'files'>): AdminRules {
  return { hosts: listen.adminHosts, access: listen.adminAccess, htpasswd: files.htpasswd }
}

/** The password verifier and its queue, as BcryptThread has them. */
export interface AdminPasswords extends PasswordVerifier {
  readonly queue: Pick<CheckQueue, 'create'>
}

/** The refusal of a request. */
export interface AdminRefusal {
  readonly status: number
  /** For the log; undefined for a request without credentials, which every browser sends first. */
  readonly reason: string | undefined
  readonly text: string
  /** A response field: name and value. */
  readonly field?: readonly [string, string]
}

const CHALLENGE = ['WWW-Authenticate', 'Basic realm="Sluice admin", charset="UTF-8"'] as const

/** Takes the place of the address for connections over a Unix socket. */
const UNIX = 'unix'

export class AdminAccess {
  readonly #rules: () => AdminRules
  readonly #passwords: AdminPasswords
  readonly #attempts: FailedAttempts
  readonly #key = randomBytes(32)
  #check: { readonly htpasswd: AdminRules['htpasswd']; readonly credentials: CredentialCheck } | undefined

  /** @param now milliseconds, monotonic */
  constructor(rules: () => AdminRules, passwords: AdminPasswords, now: () => number) {
    this.#rules = rules
    this.#passwords = passwords
    this.#attempts = new FailedAttempts(now)
  }

  get hosts(): readonly string[] {
    return this.#rules().hosts
  }

  get isReadOnly(): boolean {
    return this.#rules().access.readOnly
  }

  /**
   * Decides on a request for a resource that is not public.
   * @param signal aborted when the client no longer waits for the response
   * @returns undefined when the request is accepted; a promise, which never rejects, only when a password has to be checked
   */
  judge(
    { socket, headersDistinct }: Pick<IncomingMessage, 'socket' | 'headersDistinct'>,
    signal: CancelSignal,
  ): AdminRefusal | undefined | Promise<AdminRefusal | undefined> {
    const { access } = this.#rules()
    const { remoteAddress } = socket
    const ip = remoteAddress === undefined ? undefined : parseSocketAddress(remoteAddress)
    const isNear = access.cidr?.some(block => ip !== undefined && cidrContains(block, ip)) ?? true
    if (!isNear) {
      const text = `listen.admin.cidr does not hold ${ip?.text ?? 'a Unix socket'}`
      return { status: 403, reason: 'address', text }
    }
    if (access.basic === undefined) return undefined
    const values = headersDistinct['authorization'] ?? []
    const credentials = values.length > 1 ? 'malformed' : parseBasic(values[0])
    if (credentials === 'missing') return unauthorized(undefined, 'a name and a password are needed')
    const source = ip === undefined ? UNIX : attemptSource(ip)
    const waitSeconds = this.#attempts.waitSeconds(source)
    if (waitSeconds > 0) return refusalOf(tooManyFailures(waitSeconds))
    if (credentials === 'malformed') {
      this.#attempts.begin(source, credentials)(true)
      return unauthorized('credentials_malformed', 'Authorization is malformed')
    }
    return this.#verify(access.basic.htpasswdFile, credentials, source, signal)
  }

  #verify(
    file: string,
    credentials: BasicCredentials,
    source: string,
    signal: CancelSignal,
  ): undefined | Promise<AdminRefusal | undefined> {
    const check = this.#credentials()
    const digest = check.digest([file], credentials)
    if (check.remembered(digest) !== undefined) return undefined
    const end = this.#attempts.begin(source, digest)
    return check.find(digest, [file], credentials, { client: source, signal }).then(
      found => {
        end(found === undefined)
        return found === undefined
          ? unauthorized('credentials_wrong', 'listen.admin.basic does not hold this name with this password')
          : undefined
      },
      error => {
        end(false)
        if (signal.aborted) return { status: 499, reason: undefined, text: 'the client has left' }
        return refusalOf(error instanceof ProxyError ? error : authenticationBusy())
      },
    )
  }

  /** The check for the password files in force: a reload reads them again. */
  #credentials(): CredentialCheck {
    const { htpasswd } = this.#rules()
    if (this.#check?.htpasswd === htpasswd) return this.#check.credentials
    const passwords = this.#passwords
    const credentials = new CredentialCheck(htpasswd, { passwords, queue: passwords.queue, key: this.#key })
    if (this.#check !== undefined) credentials.adopt(this.#check.credentials)
    this.#check = { htpasswd, credentials }
    return credentials
  }
}

function unauthorized(reason: string | undefined, text: string): AdminRefusal {
  return { status: 401, reason, text, field: CHALLENGE }
}

function refusalOf({ status, reason, message, fields }: ProxyError): AdminRefusal {
  const [name, value] = fields
  const refusal = { status, reason, text: message }
  return name === undefined || value === undefined ? refusal : { ...refusal, field: [name, value] }
}

const HTTP_PORT = 80

/**
 * @param hosts canonical names that Host may have besides localhost
 * @returns the parsed Host, or undefined when it does not name this listener
 */
export function parseOwnHost(value: string | undefined, hosts: readonly string[]): Authority | undefined {
  if (value === undefined) return undefined
  try {
    const authority = parseAuthority(value, HTTP_PORT)
    const { kind, name } = authority.host
    return kind !== 'name' || name === 'localhost' || hosts.includes(name) ? authority : undefined
  } catch {
    return undefined
  }
}

/** Whether the request was not caused by a page of another origin. */
export function isSameOrigin(headers: IncomingHttpHeaders): boolean {
  const { origin, host } = headers
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  return origin === undefined || origin === `http://${host}`
}

/** Whether its Content-Type is JSON, which a browser sends to another origin only after a preflight request. */
export function hasJsonType(headers: IncomingHttpHeaders): boolean {
  const [type = ''] = (headers['content-type'] ?? '').split(';')
  return type.trim().toLowerCase() === 'application/json'
}
