import t from 'tap'
import { readSourceFiles } from './source-files.js'

/** `RFC 9110 §5.1` for each section a text cites; a bare `§5.2` belongs to the RFC named last. */
function citedSections(text: string): Set<string> {
  const cited = new Set<string>()
  let rfc = ''
  for (const [, number, section] of text.matchAll(/RFC (\d+)|§(\d+(?:\.\d+)*)/g)) {
    if (number !== undefined) rfc = number
    else if (rfc !== '') cited.add(`RFC ${rfc} §${section}`)
  }
  return cited
}

t.test('collects the sections that a text cites', async t => {
  const text = '(RFC 9110 §5.1, §5.2.1; RFC 9112 §3) and RFC 9209, then\n * §7 to §8.'
  t.same(
    [...citedSections(text)],
    ['RFC 9110 §5.1', 'RFC 9110 §5.2.1', 'RFC 9112 §3', 'RFC 9209 §7', 'RFC 9209 §8'],
  )
  t.same([...citedSections('§5')], [])
})

t.test('every section that the grammar, the codec and the cache cite is named by a test', async t => {
  const tested = new Set<string>()
  for (const [file, text] of readSourceFiles('test')) {
    if (file.endsWith('.test.ts') && !file.startsWith('architecture/')) {
      for (const section of citedSections(text)) tested.add(section)
    }
  }
  for (const part of ['http', 'http1', 'cache']) {
    for (const [file, text] of readSourceFiles(`src/${part}`)) {
      const untested = [...citedSections(text)].filter(section => !tested.has(section))
      t.same(untested, [], `src/${part}/${file}`)
    }
  }
})
