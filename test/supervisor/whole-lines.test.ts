import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { passWholeLines } from '../../src/supervisor/whole-lines.js'

async function passed(chunks: readonly (string | Buffer)[]): Promise<string[]> {
  const stream = new PassThrough()
  const lines: string[] = []
  passWholeLines(stream, text => lines.push(text))
  const ended = once(stream, 'end')
  for (const chunk of chunks) {
    stream.write(chunk)
    await new Promise(setImmediate)
  }
  stream.end()
  await ended
  return lines
}

t.test('what ends a line goes on, what does not waits', async t => {
  t.same(await passed(['a\nb\n']), ['a\nb\n'])
  t.same(await passed(['a\nb', 'c', 'd\ne\n']), ['a\n', 'bcd\ne\n'])
  t.same(await passed([]), [])
})

t.test('a character may come in two parts', async t => {
  const bytes = Buffer.from('ü\n')
  t.same(await passed([bytes.subarray(0, 1), bytes.subarray(1)]), ['ü\n'])
})

t.test('a last line without an end gets one', async t => {
  t.same(await passed(['a\nb']), ['a\n', 'b\n'])
})

t.test('a mebibyte without a line end is passed on as it is', async t => {
  const half = 'x'.repeat(512 * 1024)
  t.same(await passed([half, half]), [`${half}${half}\n`], 'a line of just that is kept')
  t.same(await passed([half, half, 'yz\n']), [`${half}${half}yz\n`])
  t.same(await passed([half, half, 'y', 'z\n']), [`${half}${half}y\n`, 'z\n'])
})
