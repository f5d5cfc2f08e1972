/** /etc/hosts: names with addresses that nobody has to be asked for (hosts(5)). */
import { isIP } from 'node:net'

/**
 * @param text lines of an address and names for it, comments behind `#`
 * @returns by name in lower case the addresses in the order of the lines. Addresses with a zone are left out: nothing can
 *   be connected to that the policy cannot judge.
 */
export function parseHostsFile(text: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    if (isIP(address) === 0 || address.includes('%')) continue
    for (const written of names) {
      const name = written.toLowerCase()
      const addresses = found.get(name)
      if (addresses === undefined) found.set(name, [address])
      else if (!addresses.includes(address)) addresses.push(address)
    }
  }
  return found
}
