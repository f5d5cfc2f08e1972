/** The READMEs of the project, for tests that run what these show and compare their tables with the program. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Compiled to .build/test/kit, three levels below the root. */
export const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

/** Folders of the project that may hold READMEs, at any depth. */
const FOLDERS = ['config', 'docker', 'src', 'test']

export interface Heading {
  /** 1 for the title */
  readonly level: number
  readonly text: string
  /** What a link to it has behind `#`. */
  readonly anchor: string
  /** Where its line begins in the text. */
  readonly at: number
}

/** @returns the paths of all READMEs, relative to the root, with forward slashes */
export function readmePaths(): string[] {
  const below = FOLDERS.flatMap(folder =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter(name => name.split(sep).at(-1) === 'README.md')
      .map(name => `${folder}/${name.split(sep).join('/')}`),
  )
  return ['README.md', ...below.sort()]
}

export function readReadme(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

/** The headings of a Markdown text, less what looks like one inside a block of code. */
export function headingsOf(text: string): Heading[] {
  const found: Heading[] = []
  let at = 0
  let code = false
  for (const line of text.split('\n')) {
    if (line.startsWith('```')) code = !code
    const [, marks = '', words = ''] = /^(#+) (.*)$/.exec(line) ?? []
    if (!code && marks !== '') found.push({ level: marks.length, text: words, anchor: anchorOf(words), at })
    at += line.length + 1
  }
  return found
}

/**
 * @returns the text below a heading, up to the next one of its level or above
 * @throws Error when the README has no such heading
 */
export function readSection(path: string, heading: string): string {
  const text = readReadme(path)
  const headings = headingsOf(text)
  const index = headings.findIndex(({ text }) => text === heading)
  const own = headings[index]
  if (own === undefined) throw new Error(`${path} has no heading "${heading}"`)
  const next = headings.slice(index + 1).find(({ level }) => level <= own.level)
  return text.slice(text.indexOf('\n', own.at) + 1, next?.at)
}

/** @returns the content of the blocks of code in `language`, '' for those that name none */
export function codeBlocks(text: string, language: string): string[] {
  const blocks: string[] = []
  let block: string[] | undefined
  let wanted = false
  for (const line of text.split('\n')) {
    if (!line.startsWith('```')) block?.push(line)
    else if (block === undefined) {
      block = []
      wanted = line === `\`\`\`${language}`
    } else {
      if (wanted) blocks.push(`${block.join('\n')}\n`)
      block = undefined
    }
  }
  return blocks
}

/** As GitHub makes it: small letters, hyphens for spaces, and without other punctuation. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')
}
