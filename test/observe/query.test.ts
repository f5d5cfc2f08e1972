import t from 'tap'
import { withoutQuery } from '../../src/observe/query.js'

t.test(
  'a query begins at the first question mark, and what else may hold secrets at a number sign',
  async t => {
    for (const [target, path] of [
      ['/', '/'],
      ['/a?', '/a'],
      ['/a?b=1?c#d', '/a'],
      ['/a#b?c', '/a'],
      ['?a', ''],
      ['', ''],
      ['*', '*'],
    ] as const) {
      t.equal(withoutQuery(target), path, target)
    }
  },
)
