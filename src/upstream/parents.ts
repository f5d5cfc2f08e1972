/**
 * The parent proxies: which hosts are reached through a parent, which parent gets a request, and how it is sent there.
 *
 * The first parent of the configuration that is up gets the request. Each parent has connections of its own, which serve
 * requests for every host. Requests that are sent directly never use them, even if the address is the same.
 */
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Logger } from 'pino'
import type { ConfigFiles, ParentFiles } from '../config/files.js'
import type { Config } from '../config/schema.js'
import { ProxyError } from '../errors.js'
import type { Host } from '../http/authority.js'
import type { Fields } from '../http/fields.js'
import { NoProxy } from '../policy/no-proxy.js'
import type { Permit } from '../policy/permit.js'
import { Availability, type AvailabilityOptions, type Health, logUpstream } from './availability.js'
import type { OpenCache } from './cache/open-cache.js'
import type { ConfiguredUpstream, Dialer } from './dial.js'
import { Http1Sender, type SenderOptions } from './http1-sender.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'

/** A parent proxy: its address, the credentials for it, and the sender for requests to it. */
export interface Parent extends ConfiguredUpstream {
  /** `scheme://host:port`, without credentials. */
  readonly url: string
  /** The authorities that may have issued its certificate; undefined if it is not connected to with TLS. */
  readonly secureContext: SecureContext | undefined
  /** The value of Proxy-Authorization; undefined if it gets no credentials. */
  readonly authorization: string | undefined
  /** Takes a permit for the parent, and requests for any host. */
  readonly sender: Sender
}

/** A parent's URL, for messages, and the credentials for it. */
type ParentAccess = Pick<Parent, 'url' | 'authorization'>

const PROXY_AUTHENTICATION_REQUIRED = 407
/** Characters of a parent's reason phrase that are quoted in messages; the phrase itself may be of any length. */
const MAX_QUOTED_CHARS = 120
const UNPRINTABLE = /[^\x20-\x7e]/g

export interface ParentsOptions extends AvailabilityOptions<Parent> {
  readonly dialer: Pick<Dialer, 'connect' | 'connectTls'>
  readonly sender: Omit<SenderOptions, 'dialer' | 'scheme'>
  /** Undefined if caching is off. */
  readonly cache: OpenCache | undefined
}

export class Parents {
  readonly #parents: readonly Parent[]
  readonly #noProxy: NoProxy
  readonly #availability: Availability<Parent>

  /**
   * @param files the contents of the files that `configured` names
   * @throws OpenSSL's error if OpenSSL refuses the authorities
   */
  constructor(configured: NonNullable<Config['parent']>, files: ParentFiles, options: ParentsOptions) {
    this.#noProxy = new NoProxy(configured.noProxy)
    this.#availability = new Availability(options)
    this.#parents = configured.urls.map(({ scheme, authority, text }) => {
      const secureContext =
        scheme === 'https' ? createSecureContext(files.ca === undefined ? {} : { ca: files.ca }) : undefined
      const { host, port } = authority
      const named = { source: 'parent.url', url: text, host, port, authorization: files.authorization }
      const sender = senderTo(named, secureContext, options)
      return { ...named, secureContext, sender: options.cache?.around(sender) ?? sender }
    })
  }

  /** Whether requests for a host are sent through a parent. */
  takes(host: Host): boolean {
    return this.#noProxy.entryFor(host) === undefined
  }

  /** Whether there is a parent with this URL. */
  has(url: string): boolean {
    return this.#parents.some(parent => parent.url === url)
  }

  get size(): number {
    return this.#parents.length
  }

  /** In the order of the configuration. */
  get health(): Health<Parent>[] {
    return this.#parents.map(parent => this.#availability.healthOf(parent))
  }

  /**
   * Chooses the parent for a request. Parents that are down come last.
   * @param tried the parents that this request has already been sent to
   * @returns undefined if it has been sent to all of them
   */
  take(tried: ReadonlySet<Parent>): Parent | undefined {
    const left = this.#parents.filter(parent => !tried.has(parent))
    const [first] = this.#availability.preferred(left)
    if (first !== undefined) this.#availability.chosen(first)
    return first
  }

  /** A connection to the parent was established. */
  markUp(parent: Parent): void {
    this.#availability.markUp(parent)
  }

  /** Connecting to the parent failed. */
  markDown(parent: Parent, error: ProxyError): void {
    this.#availability.markDown(parent, error)
  }

  /** See Sender.retire. */
  retire(): void {
    for (const { sender } of this.#parents) sender.retire()
  }

  close(): void {
    for (const { sender } of this.#parents) sender.close()
  }
}

/** Creates the parents of a configuration; undefined if it has none. Changes of their health are logged. */
export function createParents(
  { config, files }: { readonly config: Config; readonly files: ConfigFiles },
  logger: Logger,
  options: Omit<ParentsOptions, 'onChange'>,
): Parents | undefined {
  if (config.parent === undefined) return undefined
  const onChange: ParentsOptions['onChange'] = (parent, error) => logUpstream(logger, parent, error)
  return new Parents(config.parent, files.parent ?? {}, { ...options, onChange })
}

function senderTo(
  parent: ParentAccess,
  context: SecureContext | undefined,
  { dialer, sender }: ParentsOptions,
): ParentSender {
  const options: SenderOptions = {
    ...sender,
    scheme: context === undefined ? 'http' : 'https',
    dialer:
      context === undefined
        ? dialer
        : { connect: (permit, signal) => dialer.connectTls(permit, context, signal) },
  }
  return new ParentSender(new Http1Sender(options), parent)
}

/**
 * Sends requests to a parent proxy in absolute-form, with the credentials for it (RFC 9112 §3.2.2, RFC 9110 §11.7.2).
 * A 407 from the parent is about those credentials, so it is never passed to the client. A TRACE is sent without
 * them: its response contains the request as it was received (§9.3.8), and the client must not see them.
 */
export class ParentSender implements Sender {
  readonly #inner: Sender
  readonly #parent: ParentAccess

  /** @param inner sends requests on connections to the parent */
  constructor(inner: Sender, parent: ParentAccess) {
    this.#inner = inner
    this.#parent = parent
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const authorization = request.method === 'TRACE' ? undefined : this.#parent.authorization
    const fields: Fields =
      authorization === undefined ? request.fields : [...request.fields, 'Proxy-Authorization', authorization]
    const asked = { ...request, path: absoluteForm(request), fields }
    let refused = false
    let cancel: Cancel | undefined
    const responded: UpstreamEvents['responded'] = (head, flow) => {
      if (head.status !== PROXY_AUTHENTICATION_REQUIRED) {
        events.responded(head, flow)
        return
      }
      refused = true
      cancel?.()
      events.failed(parentRefusal(this.#parent, head, request.method), 'never')
    }
    const watched: UpstreamEvents = {
      connected: (address, connectMs, isSent) => events.connected(address, connectMs, isSent),
      sent: () => events.sent(),
      interim: head => events.interim(head),
      cached: outcome => events.cached(outcome),
      responded,
      data: chunk => events.data(chunk),
      ended: trailers => events.ended(trailers),
      failed: (error, retry) => events.failed(error, retry),
      upgraded: (head, socket, rest) => events.upgraded(head, socket, rest),
    }
    cancel = this.#inner.send(asked, permit, watched, fresh)
    // The response may have come while the request was being sent.
    if (refused) cancel()
    return cancel
  }

  retire(): void {
    this.#inner.retire()
  }

  close(): void {
    this.#inner.close()
  }
}

/** The absolute-form of a target. OPTIONS * becomes a target that ends with its authority (RFC 9112 §3.2.4). */
function absoluteForm({ host, path }: UpstreamRequest): string {
  return `http://${host}${path === '*' ? '' : path}`
}

/**
 * The error for a response in which a parent proxy speaks for itself, not for the origin. The client gets 502: from its
 * view this proxy failed to reach the origin, and its own credentials are not what the parent asks for. The type is that of a
 * connection which the next hop refused: no type of RFC 9209 §2.3 is nearer (`http_request_denied` is of requests that were
 * not forwarded, `destination_unavailable` of next hops that are down); the reason tells it from a port where nothing listens.
 *
 * @param head the head of a response to CONNECT other than 2xx, or of a 407
 * @param method the method of the request
 * @returns an error with reason `parent_credentials` for 407, `parent_failed` for 5xx, otherwise `parent_refused`
 */
export function parentRefusal(
  parent: ParentAccess,
  { status, reason }: { readonly status: number; readonly reason: string },
  method: string,
): ProxyError {
  const phrase = reason.slice(0, MAX_QUOTED_CHARS).replace(UNPRINTABLE, '?')
  const answer = `The parent proxy ${parent.url} answered ${status}${phrase === '' ? '' : ` (${phrase})`}`
  if (status !== PROXY_AUTHENTICATION_REQUIRED) {
    return new ProxyError('connection_refused', `the parent proxy answered ${status}`, {
      status: 502,
      reason: status >= 500 ? 'parent_failed' : 'parent_refused',
      detail: `${answer}. The refusal comes from the parent, not from this proxy.`,
    })
  }
  return new ProxyError('connection_refused', 'the parent proxy answered 407', {
    status: 502,
    reason: 'parent_credentials',
    detail: `${answer}. ${credentialsHint(parent, method)}`,
  })
}

function credentialsHint({ authorization }: ParentAccess, method: string): string {
  if (method === 'TRACE') {
    return 'A TRACE is sent without the name and password of parent.basic_file, because the response would show them; the parent must accept it without credentials.'
  }
  return authorization === undefined
    ? 'The parent asks for a name and a password: write them as user:password to a file, and set parent.basic_file to its path.'
    : 'The parent did not accept the name and password in the file that parent.basic_file names.'
}
