/** One parent proxy of the configuration: where it is, what it is shown, and what sends requests to it. */
import type { SecureContext } from 'node:tls'
import type { ConfiguredUpstream } from './dial.js'
import type { Sender } from './sender.js'

export interface Parent extends ConfiguredUpstream {
  /** `scheme://host:port`, without credentials. */
  readonly url: string
  /** Where it is spoken to by TLS: whose authorities its certificate has to come from. */
  readonly secureContext: SecureContext | undefined
  /** The value of Proxy-Authorization. */
  readonly authorization: string | undefined
  /** Takes a permit for the parent, and requests for whatever host. */
  readonly sender: Sender
}
