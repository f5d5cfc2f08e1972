/** The names of a configuration, resolved with a lookup and a clock of the test's own. */
import type { Config } from '../../../src/config/schema.js'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { Lookups, type Names } from '../../../src/dns/resolve.js'
import type { AddressLookup } from '../../../src/dns/lookup.js'

export function namesOf(config: Config, lookup?: AddressLookup, now: () => number = () => 0): Names {
  const lookups = new Lookups(config, lookup === undefined ? {} : { lookup })
  return lookups.names(config, { now, descriptors: NO_DESCRIPTOR_KEPT })
}
