/** Files that have one entry a line, as htpasswd has: blank lines and those that begin with `#` hold none. */

export interface TextLine {
  /** From 1 on. */
  readonly number: number
  readonly text: string
}

/** @param text the content of a file, with line ends and a byte order mark as any system makes them */
export function textLines(text: string): TextLine[] {
  const lines = text.replace(/^\ufeff/, '').split('\n')
  return lines
    .map((line, index) => ({ number: index + 1, text: line.replace(/\r$/, '') }))
    .filter(({ text }) => text.trim() !== '' && !text.startsWith('#'))
}
