/**
 * The output of a command: text on the standard streams, only through this interface so that tests can read it, and an
 * exit code.
 */

/** Each call writes the text unchanged; line ends are part of the text. */
export interface Io {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Whether stderr supports colour. */
  readonly color: boolean
}

interface Sink {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** Uses colour only on a terminal, and not if NO_COLOR is set to a non-empty value (https://no-color.org). */
export function streamIo(stdout: Sink, stderr: Sink, env: Readonly<Record<string, string | undefined>>): Io {
  const noColor = env['NO_COLOR'] ?? ''
  return {
    stdout: text => void stdout.write(text),
    stderr: text => void stderr.write(text),
    color: stderr.isTTY === true && noColor === '',
  }
}

const CODES = { red: 31, green: 32, yellow: 33 } as const

/** The text in a colour if `to` supports colour, otherwise unchanged. */
export function paint(to: Pick<Io, 'color'>, color: keyof typeof CODES, text: string): string {
  return to.color ? `\x1b[${CODES[color]}m${text}\x1b[39m` : text
}

/** Exit codes: those of sysexits.h, and 1 for a negative answer. */
export const EXIT = {
  ok: 0,
  /** The request in question would be refused. */
  denied: 1,
  /** The command line is wrong. */
  usage: 64,
  /** The input data are invalid. */
  data: 65,
  /** An input file does not exist or cannot be read. */
  noInput: 66,
  /** An address cannot be listened on, or the service at an address does not respond as expected. */
  unavailable: 69,
  /** A bug of the program. */
  software: 70,
  /** The system has too few file descriptors for a start. */
  system: 71,
  /** An output file cannot be written. */
  cannotCreate: 73,
  /** Output was lost. */
  ioError: 74,
  /** DNS did not answer; a retry may succeed. */
  temporary: 75,
  /** The configuration is wrong. */
  config: 78,
} as const
