/** A queue in which every lookup runs at once, for tests of what stands before or behind it. */
import { LookupQueue } from '../../../src/upstream/lookup-queue.js'

const MANY = 1_000_000

export function wideQueue(): LookupQueue {
  return new LookupQueue({
    limits: { dnsLookups: MANY, dnsLookupsPerClient: MANY },
    atOnce: MANY,
    onRejected: () => {},
  })
}
