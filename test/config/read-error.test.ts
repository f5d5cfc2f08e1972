import t from 'tap'
import { readErrorText } from '../../src/config/read-error.js'

t.test('says why a file could not be read, for people', async t => {
  const failed = (code: string) => Object.assign(new Error('x'), { code })
  t.equal(readErrorText(failed('ENOENT')), 'no such file')
  t.equal(readErrorText(failed('EISDIR')), 'is a directory, not a file')
  t.equal(readErrorText(failed('EACCES')), 'no permission to read it')
  t.equal(readErrorText(failed('EIO')), 'can not be read (EIO)')
  t.equal(readErrorText('x'), 'can not be read (x)')
})
