import t from 'tap'
import { textLines } from '../../src/config/text-lines.js'

t.test('gives each line that holds an entry, with its number', async t => {
  t.same(textLines(''), [])
  t.same(textLines('a:b'), [{ number: 1, text: 'a:b' }])
  t.same(textLines('\ufeff# who\r\n\r\na:b \r\n \t\n  c\n'), [
    { number: 3, text: 'a:b ' },
    { number: 5, text: '  c' },
  ])
  t.same(textLines('a#\rb\n #c'), [
    { number: 1, text: 'a#\rb' },
    { number: 2, text: ' #c' },
  ])
})
