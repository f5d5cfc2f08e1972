/** What the log says of a configuration that is usable, but hardly meant like that: at the start, and after a reload. */
import type { Logger } from 'pino'
import { decidesByAddress } from '../clients/identify.js'
import {
  isTcp,
  type ListenAddress,
  serializeListenAddress,
  type TcpAddress,
} from '../config/listen-address.js'
import type { Loaded } from '../config/load.js'
import { classifyAddress } from '../net/address-class.js'
import { parseIpAddress } from '../net/ip-address.js'

/** @param served the addresses that clients are served on */
export function logWarnings(logger: Logger, loaded: Loaded, served: readonly ListenAddress[]): void {
  for (const { line, path, message } of loaded.warnings) {
    logger.warn({ event: 'config_warning', line, path, message })
  }
  const open = loaded.config.clients.some(decidesByAddress)
    ? served.filter(isTcp).filter(address => !isLoopback(address))
    : []
  if (open.length === 0) return
  logger.warn({
    event: 'open_listener',
    proxy: open.map(serializeListenAddress),
    message:
      'listening beyond loopback without authentication: some clients are known by address alone, and behind NAT ' +
      'a stranger can look like one of them; keep the port from being published, or give every entry of clients ' +
      'basic or certificate',
  })
}

function isLoopback({ host }: TcpAddress): boolean {
  const ip = parseIpAddress(host)
  return ip === undefined ? host === 'localhost' : classifyAddress(ip) === 'loopback'
}
