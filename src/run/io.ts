/**
 * What a command gives to whoever started it: text on the standard streams, which it touches through this alone so that
 * tests can read it, and an exit code.
 */

/** Each call writes the text as it is; line ends belong to the text. */
export interface Io {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
  /** Whether stderr takes colour. */
  readonly color: boolean
}

interface Sink {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** Colour goes to a terminal alone, and not there when NO_COLOR is set to anything (https://no-color.org). */
export function streamIo(stdout: Sink, stderr: Sink, env: Readonly<Record<string, string | undefined>>): Io {
  const noColor = env['NO_COLOR'] ?? ''
  return {
    stdout: text => void stdout.write(text),
    stderr: text => void stderr.write(text),
    color: stderr.isTTY === true && noColor === '',
  }
}

const CODES = { red: 31, green: 32, yellow: 33 } as const

/** The text in a colour where `to` takes one, else the text. */
export function paint(to: Pick<Io, 'color'>, color: keyof typeof CODES, text: string): string {
  return to.color ? `\x1b[${CODES[color]}m${text}\x1b[39m` : text
}

/** Exit codes, as sysexits.h numbers them, and 1 for an answer that is no. */
export const EXIT = {
  ok: 0,
  /** What was asked about would be refused. */
  denied: 1,
  /** The command line is wrong. */
  usage: 64,
  /** What was read is not what it should be. */
  data: 65,
  /** A file to be read is not there, or cannot be read. */
  noInput: 66,
  /** An address cannot be listened on, or nobody there does what was asked for. */
  unavailable: 69,
  /** A fault of the program itself. */
  software: 70,
  /** The system has no file descriptor left to start with. */
  system: 71,
  /** A file to be written cannot be. */
  cannotCreate: 73,
  /** What was to be printed could not be. */
  ioError: 74,
  /** DNS did not answer; it may the next time. */
  temporary: 75,
  /** The configuration is wrong. */
  config: 78,
} as const
