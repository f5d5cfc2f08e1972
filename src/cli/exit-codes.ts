/** Exit codes, as sysexits.h numbers them. */
export const EXIT = {
  ok: 0,
  /** The command line is wrong. */
  usage: 64,
  /** An address can not be listened on. */
  unavailable: 69,
  /** A fault of the program itself. */
  software: 70,
  /** The configuration is wrong. */
  config: 78,
} as const
