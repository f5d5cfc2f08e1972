/** Which addresses lead back to listeners of our own: a wildcard address is every address of the machine. */
import type { NetworkInterfaceInfo } from 'node:os'
import type { ListenAddress } from '../config/listen-address.js'
import { cidrOfAddress, parseCidr } from '../net/cidr.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import type { OwnListener } from '../policy/permit.js'

const LOOPBACK = ['127.0.0.0/8', '::1/128'].map(parseCidr)

/** @param interfaces the addresses of this machine, as node:os lists them */
export function ownListeners(
  bound: readonly { readonly address: ListenAddress; readonly role: OwnListener['role'] }[],
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]>,
): OwnListener[] {
  const machine = Object.values(interfaces)
    .flatMap(list => list ?? [])
    .flatMap(({ address }) => parseIpAddress(address) ?? [])
    .map(cidrOfAddress)
  return bound.flatMap(({ address, role }) => {
    const ip = parseIpAddress(address.host)
    const wildcard = address.host === '0.0.0.0' || address.host === '::'
    const blocks = wildcard || ip === undefined ? [...LOOPBACK, ...machine] : [cidrOfAddress(unmapIpv4(ip))]
    return blocks.map(cidr => ({ cidr, port: address.port, role }))
  })
}
