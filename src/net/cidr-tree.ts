/**
 * Values kept under address blocks and found by address: a binary tree over the bits, so that a look-up costs the
 * length of an address and not the number of blocks (a deny list may hold many thousands).
 *
 * A mapped IPv6 address is looked up as its IPv4, as everywhere.
 */
import type { Cidr } from './cidr.js'
import { type IpAddress, unmapIpv4 } from './ip-address.js'

interface Node<T> {
  readonly values: T[]
  zero?: Node<T>
  one?: Node<T>
}

export class CidrTree<T> {
  readonly #roots = { 4: newNode<T>(), 6: newNode<T>() }

  add(cidr: Cidr, value: T): void {
    let node = this.#roots[cidr.family]
    for (let i = 0; i < cidr.prefix; i++) {
      const side = bitAt(cidr.bytes, i) === 0 ? 'zero' : 'one'
      node = node[side] ??= newNode<T>()
    }
    node.values.push(value)
  }

  /** The values of every block that holds the address: longest prefix first, within a block in the order added. */
  find(address: IpAddress): T[] {
    const ip = unmapIpv4(address)
    const path: T[][] = []
    let node: Node<T> | undefined = this.#roots[ip.family]
    for (let i = 0; node !== undefined; i++) {
      if (node.values.length > 0) path.push(node.values)
      node = bitAt(ip.bytes, i) === 0 ? node.zero : node.one
    }
    return path.reverse().flat()
  }
}

function newNode<T>(): Node<T> {
  return { values: [] }
}

/** Past the last bit it answers 0: the deepest nodes have no children. */
function bitAt(bytes: readonly number[], index: number): number {
  return ((bytes[index >> 3] ?? 0) >> (7 - (index & 7))) & 1
}
