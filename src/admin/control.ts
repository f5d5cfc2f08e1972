import type { MetricsReport } from '../observe/exposition.js'

/** What the admin listener may know of the rest. */
export interface Control {
  /** Whether new requests are welcome: false once the proxy is draining. */
  ready(): boolean
  /** The metrics, one report for each worker. */
  metrics(): Promise<readonly MetricsReport[]>
}
