import t from 'tap'
import { listedWords } from '../../src/cli/listed-words.js'

t.test('words keep the order of the command line, including - and the words after --', async t => {
  const table: [listed: string[], behind: string[], argv: string[], words: string[]][] = [
    [[], [], ['check'], []],
    [['a', 'b'], [], ['check', 'a', 'b'], ['a', 'b']],
    [['a', 'b'], [], ['check', 'a', '-', 'b'], ['a', '-', 'b']],
    [['a'], [], ['check', '-', '--config', 'x', 'a'], ['-', 'a']],
    [['a'], ['-x', 'b'], ['check', 'a', '--', '-x', 'b'], ['a', '-x', 'b']],
    [['check'], [], ['check', 'check'], ['check']],
    [[''], [], ['check', ''], ['']],
    // Written otherwise than it was read, as a number can be.
    [['7'], [], ['check', '-', '07'], ['-', '7']],
  ]
  for (const [listed, behind, argv, words] of table)
    t.same(listedWords(listed, { _: ['check', ...behind] }, argv), words, argv.join(' '))
})
