/**
 * Which addresses lead back to listeners of our own: a wildcard address is every address of the machine. Those of
 * interfaces that are down, and those that come later, are not known here; the dialler finds them out.
 */
import type { NetworkInterfaceInfo } from 'node:os'
import type { TcpAddress } from '../config/listen-address.js'
import { cidrOfAddress, parseCidr } from '../net/cidr.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import type { OwnListener } from '../policy/permit.js'

const LOOPBACK = ['127.0.0.0/8', '::1/128'].map(parseCidr)

/** @param interfaces the addresses of this machine, as node:os lists them */
export function ownListeners(
  bound: readonly { readonly address: TcpAddress; readonly role: OwnListener['role'] }[],
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]>,
): OwnListener[] {
  const machine = Object.values(interfaces)
    .flatMap(list => list ?? [])
    .flatMap(({ address }) => parseIpAddress(address) ?? [])
    .map(cidrOfAddress)
  return bound.flatMap(({ address, role }) => {
    const parsed = parseIpAddress(address.host)
    const ip = parsed && unmapIpv4(parsed)
    const wildcard = ip?.text === '0.0.0.0' || ip?.text === '::'
    const blocks = wildcard || ip === undefined ? [...LOOPBACK, ...machine] : [cidrOfAddress(ip)]
    return blocks.map(cidr => ({ cidr, port: address.port, wildcard, role }))
  })
}
