import t from 'tap'
import { readLogLines } from '../../src/advice/log-lines.js'

const LIMIT = 1024 * 1024

async function lines(...chunks: (string | Uint8Array)[]): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = []
  async function* bytes() {
    for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
  }
  await readLogLines(bytes(), line => found.push(line))
  return found
}

t.test('gives each line without its end, wherever the chunks are cut', async t => {
  t.strictSame(await lines('a\nbc\nd'), ['a', 'bc', 'd'])
  t.strictSame(await lines('a', '\n', 'b', 'c\nd', '\n'), ['a', 'bc', 'd'])
  const text = Buffer.from('é\n€\n')
  for (let cut = 0; cut <= text.length; cut++) {
    t.strictSame(await lines(text.subarray(0, cut), text.subarray(cut)), ['é', '€'])
  }
})

t.test('leaves out empty lines', async t => {
  t.strictSame(await lines(), [])
  t.strictSame(await lines(''), [])
  t.strictSame(await lines('\n\r\n\na\n\n'), ['a'])
})

t.test('gives a line that is too long as undefined, once, and goes on behind it', async t => {
  const longest = 'x'.repeat(LIMIT)
  t.strictSame(await lines(`${longest}\nb\n`), [longest, 'b'])
  t.strictSame(await lines(`${longest}x\nb\n`), [undefined, 'b'])
  t.strictSame(await lines(longest, 'x', longest, longest, 'x\nb\n'), [undefined, 'b'])
  t.strictSame(await lines(longest, 'x'), [undefined])
  t.strictSame(await lines(longest), [longest])
  t.strictSame(await lines(longest, 'x', '\n', '\n', 'b'), [undefined, 'b'])
})

t.test('passes on what reading throws', async t => {
  async function* broken() {
    yield Buffer.from('a\n')
    throw new Error('gone')
  }
  const found: unknown[] = []
  await t.rejects(
    readLogLines(broken(), line => found.push(line)),
    { message: 'gone' },
  )
  t.strictSame(found, ['a'])
})
