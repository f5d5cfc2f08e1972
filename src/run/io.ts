/**
 * Where a command writes, so that commands touch no stream of the process themselves and tests read what they say.
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
