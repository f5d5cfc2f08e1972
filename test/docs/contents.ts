/** The table of contents that a README with many headings begins with. */
import { headingsOf } from '../kit/readmes.js'

/** @returns one line for each section */
export function contentsOf(text: string): string {
  return headingsOf(text)
    .filter(({ level, text }) => level === 2 && text !== 'Contents')
    .map(({ text, anchor }) => `- [${text.replaceAll('`', '')}](#${anchor})`)
    .join('\n')
}
