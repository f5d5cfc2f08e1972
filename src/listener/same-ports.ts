/** Where a worker listens that binds for itself: what port 0 became for the first one is the port of all of them. */
import { isTcp, type ListenAddress } from '../config/listen-address.js'
import type { Bindable } from './passed-sockets.js'

/** @param bound the same addresses, as the first worker has bound them; undefined for that one */
export function samePorts(
  addresses: readonly Bindable[],
  bound: readonly ListenAddress[] = [],
): readonly Bindable[] {
  return addresses.map((address, index) => {
    const known = bound[index]
    // A socket of systemd is told by its address, too, and is not bound here.
    return 'port' in address && known !== undefined && isTcp(known) ? known : address
  })
}
