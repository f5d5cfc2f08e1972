import t from 'tap'
import { ProxyError } from '../../../src/errors.js'
import { isMissing, isUnreadable, storeFailure } from '../../../src/origin/store/failures.js'

const systemError = (code: string): Error => Object.assign(new Error('failed'), { code })

t.test('a file is missing when the system says so, by its code', async t => {
  for (const error of [
    new Error('none'),
    Object.assign(new Error('number'), { code: 5 }),
    'EIO',
    undefined,
  ]) {
    t.notOk(isMissing(error))
  }
  t.ok(isMissing(systemError('ENOENT')))
  t.notOk(isMissing(systemError('ENOTDIR')))
})

t.test("a file is unreadable if the system's error is about the file, not the process", async t => {
  for (const [code, expected] of [
    ['EIO', true],
    ['EACCES', true],
    ['EMFILE', false],
    ['ENFILE', false],
    ['ENOMEM', false],
  ] as const) {
    t.equal(isUnreadable(Object.assign(systemError(code), { syscall: 'open' })), expected, code)
    t.notOk(isUnreadable(systemError(code)), 'where it was no call of the system')
  }
})

t.test('a full disk is 507, an unusable directory is 500, and both name the configuration key', async t => {
  for (const [code, status, reason] of [
    ['ENOSPC', 507, 'store_full'],
    ['EDQUOT', 507, 'store_full'],
    ['EACCES', 500, 'store_directory'],
    ['EPERM', 500, 'store_directory'],
    ['EROFS', 500, 'store_directory'],
    ['ENOTDIR', 500, 'store_directory'],
    ['ENOENT', 500, 'store_directory'],
    ['ELOOP', 500, 'store_directory'],
  ] as const) {
    const cause = systemError(code)
    t.match(storeFailure(cause), { status, reason, detail: /origins\[\]\.store\.directory/, cause }, code)
  }
  const { status, reason } = storeFailure(systemError('EIO'))
  t.equal(status, 500)
  t.notMatch(reason, /^store_/)
})

t.test('running out of file descriptors is temporary: 503', async t => {
  for (const code of ['EMFILE', 'ENFILE']) {
    t.match(storeFailure(systemError(code)), {
      status: 503,
      reason: 'file_descriptors',
      fields: ['Retry-After', '1'],
    })
  }
})

t.test('a ProxyError is not changed', async t => {
  const error = new ProxyError('http_request_error', 'no', { status: 412 })
  t.equal(storeFailure(error), error)
})
