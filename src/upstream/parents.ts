/**
 * The parent proxies: which hosts go through one, and which of them is asked.
 *
 * The first that can be reached is, in the order of the configuration. Each has connections of its own, which serve
 * every host, and which nothing that goes directly ever uses, whatever its address.
 */
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Logger } from 'pino'
import type { ConfigFiles, ParentFiles } from '../config/files.js'
import type { Config } from '../config/schema.js'
import type { ProxyError } from '../errors.js'
import type { Host } from '../http/authority.js'
import { logUpstream } from './upstream-log.js'
import { NoProxy } from '../policy/no-proxy.js'
import { Availability, type AvailabilityOptions } from './availability.js'
import type { Dialer } from './dial.js'
import { Http1Sender, type SenderOptions } from './http1-sender.js'
import type { Parent } from './parent.js'
import { ParentSender } from './parent-sender.js'

export interface ParentsOptions extends AvailabilityOptions<Parent> {
  readonly dialer: Pick<Dialer, 'connect' | 'connectTls'>
  readonly sender: Omit<SenderOptions, 'dialer' | 'scheme'>
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
      return { ...named, secureContext, sender: senderTo(named, secureContext, options) }
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

  /** A connection to it stood. */
  reached(parent: Parent): void {
    this.#availability.reached(parent)
  }

  /** None came to stand. */
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

/** The parents of a configuration; undefined when it has none. What becomes of them is logged. */
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
  parent: Pick<Parent, 'url' | 'authorization'>,
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
