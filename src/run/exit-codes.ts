/** Exit codes, as sysexits.h numbers them, and 1 for an answer that is no. */
export const EXIT = {
  ok: 0,
  /** What was asked about would be refused. */
  denied: 1,
  /** The command line is wrong. */
  usage: 64,
  /** What was read is not what it should be. */
  data: 65,
  /** A file to be read is not there, or can not be read. */
  noInput: 66,
  /** An address can not be listened on. */
  unavailable: 69,
  /** A fault of the program itself. */
  software: 70,
  /** The system has no file descriptor left to start with. */
  system: 71,
  /** A file to be written can not be. */
  cannotCreate: 73,
  /** What was to be printed could not be. */
  ioError: 74,
  /** DNS did not answer; it may the next time. */
  temporary: 75,
  /** The configuration is wrong. */
  config: 78,
} as const
