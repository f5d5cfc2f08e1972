/** Limits for tests of what comes before or after them: nothing is ever refused. */
import type { ConnectionSlot } from '../../../src/limits/connection-slot.js'

export const A_PLACE: ConnectionSlot = { pending: undefined, refusal: undefined, release() {} }

export const NO_LIMITS = { connect: () => A_PLACE, meter() {} }
