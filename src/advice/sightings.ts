/**
 * What requests were seen to ask for: for every host its ports, and for each of those how it was used. Memory goes by
 * the number of different targets, not by that of requests.
 */
import type { Host } from '../http/authority.js'
import type { Method } from '../http/method.js'
import type { LoggedTarget } from './log-event.js'

/** How one port of one host was used. */
export interface PortUse {
  tunnel: boolean
  /** A forwarded request switched protocols, after which no methods are seen. */
  upgrade: boolean
  /** Of forwarded requests. */
  readonly methods: Set<Method>
}

export class Sightings {
  readonly #hosts = new Map<string, Map<number, PortUse>>()

  /** By the canonical text of the host, IPv6 without brackets; then by port. */
  get hosts(): ReadonlyMap<string, ReadonlyMap<number, PortUse>> {
    return this.#hosts
  }

  add({ form, method, host, port }: LoggedTarget): void {
    const use = this.#use(host, port)
    if (form === 'connect') use.tunnel = true
    else use.methods.add(method)
  }

  /** A forwarded request to this host and port became another protocol. It alone does not make a sighting of it. */
  addUpgrade({ host, port }: LoggedTarget): void {
    this.#use(host, port).upgrade = true
  }

  #use({ name }: Host, port: number): PortUse {
    const ports = this.#hosts.get(name) ?? new Map<number, PortUse>()
    this.#hosts.set(name, ports)
    const use = ports.get(port) ?? { tunnel: false, upgrade: false, methods: new Set<Method>() }
    ports.set(port, use)
    return use
  }
}
