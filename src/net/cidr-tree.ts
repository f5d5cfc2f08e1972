/**
 * Values stored under address blocks and looked up by address. It is a binary tree over the bits, in which every node
 * is a block or the fork of two, so that a look-up takes as many steps as blocks nest around the address, however many
 * blocks there are (a deny list may have many thousands).
 *
 * A mapped IPv6 address is looked up as its IPv4 address, as everywhere.
 */
import type { Cidr } from './cidr.js'
import { type IpAddress, unmapIpv4 } from './ip-address.js'

/**
 * A node covers the addresses that begin with the first `prefix` bits of `bytes`; its children continue with 0 or 1.
 */
interface Node<T> {
  readonly bytes: readonly number[]
  readonly prefix: number
  readonly values: T[]
  above: Node<T> | undefined
  zero?: Node<T>
  one?: Node<T>
}

const NOTHING: readonly never[] = []

export class CidrTree<T> {
  readonly #roots = { 4: newRoot<T>(), 6: newRoot<T>() }

  add({ family, bytes, prefix }: Cidr, value: T): void {
    let node: Node<T> = this.#roots[family]
    while (node.prefix < prefix) {
      const side = bitAt(bytes, node.prefix) === 0 ? 'zero' : 'one'
      const child: Node<T> | undefined = node[side]
      if (child === undefined) {
        node = node[side] = { bytes, prefix, values: [], above: node }
      } else {
        const shared = sharedBits(child.bytes, bytes, node.prefix, Math.min(child.prefix, prefix))
        if (shared === child.prefix) node = child
        else {
          const below = bitAt(child.bytes, shared) === 0 ? 'zero' : 'one'
          node = node[side] = { bytes, prefix: shared, values: [], above: node, [below]: child }
          child.above = node
        }
      }
    }
    node.values.push(value)
  }

  /** The values of all blocks that contain the address: longest prefix first, within a block in the order added. */
  find(address: IpAddress): readonly T[] {
    let found: readonly T[] = NOTHING
    for (let node: Node<T> | undefined = this.#deepest(address); node !== undefined; node = node.above) {
      if (node.values.length > 0) found = found.length === 0 ? node.values : [...found, ...node.values]
    }
    return found
  }

  /** The first value that `find` would return. */
  first(address: IpAddress): T | undefined {
    let node: Node<T> | undefined = this.#deepest(address)
    while (node !== undefined && node.values.length === 0) node = node.above
    return node?.values[0]
  }

  /** Whether every address of a block is in a block of the tree. */
  holdsAll({ family, bytes, prefix }: Cidr): boolean {
    let node: Node<T> = this.#roots[family]
    while (node.values.length === 0 && node.prefix < prefix) {
      const next: Node<T> | undefined = bitAt(bytes, node.prefix) === 0 ? node.zero : node.one
      // A smaller block leaves a part of the given block uncovered.
      if (next === undefined || next.prefix > prefix) return false
      if (sharedBits(next.bytes, bytes, node.prefix, next.prefix) < next.prefix) return false
      node = next
    }
    return isFull(node)
  }

  /** The smallest block or fork that contains an address. */
  #deepest(address: IpAddress): Node<T> {
    const { family, bytes } = unmapIpv4(address)
    const bits = family === 4 ? 32 : 128
    let node: Node<T> = this.#roots[family]
    while (node.prefix < bits) {
      const next: Node<T> | undefined = bitAt(bytes, node.prefix) === 0 ? node.zero : node.one
      if (next === undefined || sharedBits(next.bytes, bytes, node.prefix, next.prefix) < next.prefix) break
      node = next
    }
    return node
  }
}

function newRoot<T>(): Node<T> {
  return { bytes: [], prefix: 0, values: [], above: undefined }
}

/** Whether every address of a node is covered: by the node itself, or by both halves. */
function isFull<T>({ values, prefix, zero, one }: Node<T>): boolean {
  if (values.length > 0) return true
  return [zero, one].every(half => half !== undefined && half.prefix === prefix + 1 && isFull(half))
}

/** The number of leading bits that two addresses share, at most `limit`; the first `from` are known to be equal. */
function sharedBits(a: readonly number[], b: readonly number[], from: number, limit: number): number {
  for (let i = from >> 3; i * 8 < limit; i++) {
    const difference = (a[i] ?? 0) ^ (b[i] ?? 0)
    if (difference !== 0) return Math.min(limit, i * 8 + Math.clz32(difference) - 24)
  }
  return limit
}

function bitAt(bytes: readonly number[], index: number): number {
  return ((bytes[index >> 3] ?? 0) >> (7 - (index & 7))) & 1
}
