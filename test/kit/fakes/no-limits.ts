/** Limits for tests of what stands before or behind them: there is room for everything. */
import type { ConnectionSlot } from '../../../src/limits/connection-slot.js'

export const A_PLACE: ConnectionSlot = { pending: undefined, refusal: undefined, release() {} }

export const NO_LIMITS = { connect: () => A_PLACE, meter() {} }
