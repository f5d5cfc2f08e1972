/**
 * The only place that opens sockets to upstreams.
 *
 * `permit` turns a grant into vetted addresses, and `connect` dials only the address literals of such a permit. A host
 * name never reaches a connect call, so no name can be resolved twice with two different results.
 *
 * A connection that turns out to lead to one of our own listeners is closed before a byte is sent on it: an address may
 * have been assigned to this machine after the listeners were bound.
 */

import { connect as netConnect, type Socket, type TcpNetConnectOpts } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type SecureContext, connect as tlsConnect } from 'node:tls'
import { limitExceeded, ProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import { type Host, serializeHostPort } from '../http/authority.js'
import { type Descriptors, descriptorOf, noDescriptor } from '../limits/descriptors.js'
import { type IpAddress, parseSocketAddress } from '../net/ip-address.js'
import type { Policy, PolicyInForce } from '../policy/decision.js'
import type { Denial } from '../policy/denial.js'
import type { Grant, Permit } from '../policy/permit.js'
import { upstreamFailure } from './failures.js'
import { raceAttempts, type RaceOptions, type Winner } from './happy-eyeballs.js'
import { resolveGranted } from './granted-host.js'
import type { ResolveOptions, Resolver } from '../dns/resolve.js'
import { awaitHandshake } from './tls-handshake.js'

/** Opens a socket to an address literal; `net.connect` outside of tests. */
export type SocketFactory = (options: TcpNetConnectOpts) => Socket

/** Node's `onread`: reads into a buffer of the caller's, so that Node does not allocate one for each read. */
export type OnRead = NonNullable<TcpNetConnectOpts['onread']>

export interface DialerOptions {
  /** Resolves the hosts of requests. */
  readonly resolver: Resolver
  /** Resolves the hosts that the configuration names; `resolver` does if this is absent. */
  readonly configured?: Pick<Resolver, 'resolve'>
  /** Permits are made by the policy that is in force at that moment. */
  readonly inForce: PolicyInForce
  readonly connectTimeoutMs: number
  readonly descriptors: Descriptors
  readonly connector?: SocketFactory
  /** Lists the addresses of interfaces that are up; `os.networkInterfaces` outside of tests. */
  readonly interfaces?: typeof networkInterfaces
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

/** An upstream that the configuration names. */
export interface ConfiguredUpstream {
  /** The configuration key that names it, such as `origins[0].forward`. */
  readonly source: string
  readonly host: Host
  readonly port: number
}

interface ConfiguredPermit {
  readonly policy: Policy
  /** The addresses that its name resolved to; undefined for an address literal. */
  readonly addresses: readonly string[] | undefined
  readonly permit: Permit
}

/** Opens the connections that a sender puts requests on. */
export interface ConnectionFactory {
  /** See Dialer.connect. */
  connect(permit: Permit, signal: CancelSignal): Promise<Connection>
}

export interface Resolution {
  readonly permit: Permit
  /** Milliseconds that name resolution took; undefined for an address literal. */
  readonly dnsMs: number | undefined
}

export interface Connection {
  readonly socket: Socket
  readonly address: IpAddress
  readonly port: number
  /** `address:port`, IPv6 in brackets. */
  readonly where: string
  readonly connectMs: number
}

export class Dialer {
  readonly #options: DialerOptions & DialOptions
  /** The last permit of each upstream that the configuration names. */
  readonly #configured = new WeakMap<ConfiguredUpstream, ConfiguredPermit>()

  constructor(options: DialerOptions) {
    this.#options = { connector: netConnect, interfaces: networkInterfaces, ...options }
  }

  /**
   * The result of `permit` if no DNS query is needed: for an address literal, and for a name whose addresses are cached.
   * @returns undefined if the name has to be resolved
   * @throws ProxyError 403 if an address is refused, 508 if it is our own
   */
  permitIfKnown(grant: Grant): Resolution | undefined {
    const { inForce, resolver } = this.#options
    const isName = grant.host.kind === 'name'
    const addresses = isName ? resolver.cached(grant.host.name) : undefined
    if (isName && addresses === undefined) return undefined
    const verdict = inForce.policy.vet(grant, addresses)
    if ('kind' in verdict) throw refusal(verdict)
    return { permit: verdict, dnsMs: isName ? 0 : undefined }
  }

  /**
   * Resolves the granted host, unless it is an address literal, and lets the policy vet every address.
   * @throws ProxyError 502 or 504 if DNS fails, 429 or 503 if too many names are waiting for DNS, 403 if a name or an
   *   address is refused, 508 if it is our own
   */
  async permit(grant: Grant, options: ResolveOptions): Promise<Resolution> {
    const { now, inForce, resolver } = this.#options
    if (grant.host.kind !== 'name') {
      return { permit: permitOf(inForce.policy.vet(grant, undefined)), dnsMs: undefined }
    }
    const started = now()
    const found = await resolveGranted(grant, inForce.policy, resolver, options)
    if ('kind' in found) throw refusal(found)
    return { permit: permitOf(inForce.policy.vet(found.grant, found.addresses)), dnsMs: now() - started }
  }

  /**
   * Does the same for an upstream that the configuration names. Its permit is reused until the policy or its addresses
   * change.
   * @throws ProxyError 502 or 504 if DNS fails, 403 or 508 if an address is our own
   */
  async permitConfigured(
    upstream: ConfiguredUpstream,
    { signal }: Pick<ResolveOptions, 'signal'>,
  ): Promise<Permit> {
    const { source, host, port } = upstream
    const { resolver, configured = resolver } = this.#options
    const addresses = host.kind === 'name' ? await configured.resolve(host.name, { signal }) : undefined
    const { policy } = this.#options.inForce
    const last = this.#configured.get(upstream)
    if (last?.policy === policy && isSameList(last.addresses, addresses)) return last.permit
    const permit = permitOf(policy.vetConfigured(source, host, port, addresses ?? [host.name]))
    this.#configured.set(upstream, { policy, addresses, permit })
    return permit
  }

  /**
   * Vets a host that a parent proxy will connect to, as far as that is possible without its addresses.
   * @throws ProxyError 403, or 508 if it is our own address
   */
  checkBehindParent(grant: Grant): void {
    const denial = this.#options.inForce.policy.vetBehindParent(grant)
    if (denial !== undefined) throw refusal(denial)
  }

  /**
   * @param onRead the read buffer and callback for a socket that becomes a tunnel
   * @returns a connected socket whose `error` event already has a listener; the caller closes it
   * @throws ProxyError 502 or 504; 403 or 508 if it is our own listener; the signal's reason if it aborts
   */
  connect(permit: Permit, signal: CancelSignal, onRead?: OnRead): Promise<Connection> {
    return raceAttempts(permit.addresses, new Dial(this.#options, permit.grant, signal, onRead))
  }

  /**
   * Connects with TLS and verifies the certificate against the host of the permit. The connect timeout covers both.
   * @param context the authorities that may have issued the certificate
   * @throws ProxyError 502 or 504; the signal's reason if it aborts
   */
  async connectTls(permit: Permit, context: SecureContext, signal: CancelSignal): Promise<Connection> {
    const { host, port } = permit.grant
    const started = this.#options.now()
    const connection = await this.connect(permit, signal)
    const socket = tlsConnect({
      socket: connection.socket,
      secureContext: context,
      host: host.name,
      // An address cannot be a server name (RFC 6066 §3).
      ...(host.kind === 'name' ? { servername: host.name } : {}),
      ALPNProtocols: ['http/1.1'],
    })
    await awaitHandshake(socket, {
      where: serializeHostPort(host, port),
      timeoutMs: Math.max(1, this.#options.connectTimeoutMs - connection.connectMs),
      signal,
    })
    return { ...connection, socket, connectMs: this.#options.now() - started }
  }
}

type DialOptions = Pick<DialerOptions, 'inForce' | 'connectTimeoutMs' | 'descriptors' | 'now'> &
  Required<Pick<DialerOptions, 'connector' | 'interfaces'>>

/** One call of Dialer.connect: how its attempts are made, and what their results mean. */
class Dial implements RaceOptions<Connection> {
  readonly signal: CancelSignal
  readonly timeoutMs: number
  readonly #options: DialOptions
  readonly #grant: Grant
  readonly #onRead: OnRead | undefined
  readonly #started: number

  constructor(options: DialOptions, grant: Grant, signal: CancelSignal, onRead: OnRead | undefined) {
    this.signal = signal
    this.timeoutMs = options.connectTimeoutMs
    this.#options = options
    this.#grant = grant
    this.#onRead = onRead
    this.#started = options.now()
  }

  open({ text, family }: IpAddress): Socket {
    const { port } = this.#grant
    const options = { host: text, port, family, autoSelectFamily: false, allowHalfOpen: true, noDelay: true }
    const onRead = this.#onRead
    return this.#options.connector(onRead === undefined ? options : { ...options, onread: onRead })
  }

  attempted(socket: Socket): void {
    if (this.#options.descriptors.isKept(descriptorOf(socket))) socket.destroy(noDescriptor())
  }

  timedOut(): ProxyError {
    const message = `connect timeout exceeded: ${this.#where()}`
    return limitExceeded('limits.connect_timeout', 'connection_timeout', message)
  }

  failure(error: unknown): unknown {
    return this.signal.aborted ? error : upstreamFailure(error, this.#where())
  }

  /** @throws ProxyError 403 or 508 if it is our own listener */
  connected({ socket, address }: Winner): Connection {
    const { inForce, now } = this.#options
    const own = inForce.policy.vetOwnAddress(this.#grant, address)
    if (own !== undefined && this.#isOnThisMachine(socket, address)) {
      socket.destroy()
      throw refusal(own)
    }
    const { port } = this.#grant
    const kind = address.family === 6 ? 'ipv6' : 'ipv4'
    const where = serializeHostPort({ kind, name: address.text }, port)
    return { socket, address, port, where, connectMs: now() - this.#started }
  }

  #where(): string {
    return serializeHostPort(this.#grant.host, this.#grant.port)
  }

  /**
   * Whether an address belongs to this machine. The system connects to an address of its own from that same address,
   * even if its interface is down. The exception is a secondary address of an interface, which it connects to from the
   * primary one; so the addresses of the interfaces are compared, too.
   */
  #isOnThisMachine({ localAddress }: Socket, { text }: IpAddress): boolean {
    const isIt = (own: string): boolean => parseSocketAddress(own)?.text === text
    if (isIt(localAddress ?? '')) return true
    return Object.values(this.#options.interfaces()).some(list => list?.some(({ address }) => isIt(address)))
  }
}

function isSameList(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return a === b || (a?.length === b?.length && a?.every((text, i) => text === b?.[i]) === true)
}

function permitOf(verdict: Permit | Denial): Permit {
  if ('kind' in verdict) throw refusal(verdict)
  return verdict
}

function refusal({ status, message, reason, detail, address }: Denial): ProxyError {
  const prohibited = reason === 'deny_host' ? 'http_request_denied' : 'destination_ip_prohibited'
  const type = status === 508 ? 'proxy_loop_detected' : prohibited
  return new ProxyError(type, message, { reason, detail, address })
}
