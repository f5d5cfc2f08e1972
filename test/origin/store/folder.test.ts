import t from 'tap'
import { namesIn } from '../../../src/origin/store/folder.js'

t.test('a folder that is not there has nothing in it, and any other failure is told', async t => {
  const folder = t.testdir({ a: '', b: {} })
  t.same((await namesIn(folder)).sort(), ['a', 'b'])
  t.same(await namesIn(`${folder}/b`), [])
  t.same(await namesIn(`${folder}/c`), [])
  await t.rejects(namesIn(`${folder}/a`), { code: 'ENOTDIR' })
})
