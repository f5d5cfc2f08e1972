/**
 * The parent proxies: which hosts go through one, which of them is asked, and how it is asked.
 *
 * The first that can be reached is, in the order of the configuration. Each has connections of its own, which serve
 * every host, and which nothing that goes directly ever uses, whatever its address.
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

/** One of them: where it is, what it is shown, and what sends requests to it. */
export interface Parent extends ConfiguredUpstream {
  /** `scheme://host:port`, without credentials. */
  readonly url: string
  /** Where it is spoken to by TLS: whose authorities its certificate has to come from. */
  readonly secureContext: SecureContext | undefined
  /** The value of Proxy-Authorization. */
  readonly authorization: string | undefined
  /** Takes a permit for the parent, and requests for whatever host. */
  readonly sender: Sender
}

/** What a parent is asked with. */
type Asked = Pick<Parent, 'url' | 'authorization'>

const PROXY_AUTHENTICATION_REQUIRED = 407
/** What is repeated of the parent's own words, which may be anything. */
const MAX_REASON = 120
const UNPRINTABLE = /[^\x20-\x7e]/g

export interface ParentsOptions extends AvailabilityOptions<Parent> {
  readonly dialer: Pick<Dialer, 'connect' | 'connectTls'>
  readonly sender: Omit<SenderOptions, 'dialer' | 'scheme'>
  /** Undefined where nothing is cached. */
  readonly cache: OpenCache | undefined
}

export class Parents {
  readonly #parents: readonly Parent[]
  readonly #noProxy: NoProxy
  readonly #availability: Availability<Parent>

  /**
   * @param files what was read of the files that `configured` names
   * @throws OpenSSL's error when authorities are not those that were checked
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

  /** Whether requests to a host go through a parent. */
  takes(host: Host): boolean {
    return this.#noProxy.entryFor(host) === undefined
  }

  /** Whether the one with this URL is among them. */
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
   * The parent for a request. Those that are down come after all others.
   * @param tried those that this request has been to already
   * @returns undefined when it has been to all
   */
  take(tried: ReadonlySet<Parent>): Parent | undefined {
    const left = this.#parents.filter(parent => !tried.has(parent))
    const [first] = this.#availability.preferred(left)
    if (first !== undefined) this.#availability.chosen(first)
    return first
  }

  /** A connection to it was established. */
  reached(parent: Parent): void {
    this.#availability.reached(parent)
  }

  /** None could be established. */
  unreached(parent: Parent, error: ProxyError): void {
    this.#availability.unreached(parent, error)
  }

  /** As of a Sender. */
  retire(): void {
    for (const { sender } of this.#parents) sender.retire()
  }

  close(): void {
    for (const { sender } of this.#parents) sender.close()
  }
}

/** The parents of a configuration; undefined when it has none. Their failures are logged. */
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
  parent: Asked,
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
 * Sends requests to a parent proxy as a proxy is sent them: in absolute-form, with the credentials that are for it
 * (RFC 9112 §3.2.2, RFC 9110 §11.7.2). Its 407 is about those, and so is never the client's to answer. A TRACE goes
 * without them: whoever answers it may send back all that it was sent (§9.3.8), and they are none of the client's.
 */
export class ParentSender implements Sender {
  readonly #inner: Sender
  readonly #parent: Asked

  /** @param inner sends over connections to the parent */
  constructor(inner: Sender, parent: Asked) {
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
      informed: head => events.informed(head),
      cached: outcome => events.cached(outcome),
      responded,
      data: chunk => events.data(chunk),
      ended: trailers => events.ended(trailers),
      failed: (error, retry) => events.failed(error, retry),
      upgraded: (head, socket, rest) => events.upgraded(head, socket, rest),
    }
    cancel = this.#inner.send(asked, permit, watched, fresh)
    // It may have been answered while it was being sent.
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

/** What asks about a server as a whole names it by its authority alone (RFC 9112 §3.2.4). */
function absoluteForm({ host, path }: UpstreamRequest): string {
  return `http://${host}${path === '*' ? '' : path}`
}

/**
 * What an answer of a parent proxy means that is no answer of the one it was asked to reach: 502, because to the client
 * it is this proxy that did not get through, and its own credentials have nothing to do with it.
 *
 * @param head of an answer to CONNECT other than 2xx, or of a 407
 * @param method of the request
 * @returns an error whose reason is `parent_credentials`, `parent_failed` for 5xx, and otherwise `parent_refused`
 */
export function parentRefusal(
  parent: Asked,
  { status, reason }: { readonly status: number; readonly reason: string },
  method: string,
): ProxyError {
  const said = reason.slice(0, MAX_REASON).replace(UNPRINTABLE, '?')
  const answer = `The parent proxy ${parent.url} answered ${status}${said === '' ? '' : ` (${said})`}`
  if (status !== PROXY_AUTHENTICATION_REQUIRED) {
    return new ProxyError('connection_refused', `the parent proxy answered ${status}`, {
      status: 502,
      reason: status >= 500 ? 'parent_failed' : 'parent_refused',
      detail: `${answer}. It was the parent that said so, and not this proxy.`,
    })
  }
  return new ProxyError('connection_refused', 'the parent proxy answered 407', {
    status: 502,
    reason: 'parent_credentials',
    detail: `${answer}. ${remedy(parent, method)}`,
  })
}

function remedy({ authorization }: Asked, method: string): string {
  if (method === 'TRACE') {
    return 'A TRACE is sent without the name and password of parent.basic_file, as its answer would show them: the parent has to let it pass without any.'
  }
  return authorization === undefined
    ? 'It asks for a name and a password: write them as user:password into a file, and its path into parent.basic_file.'
    : 'It did not take the name and password in the file that parent.basic_file names.'
}
