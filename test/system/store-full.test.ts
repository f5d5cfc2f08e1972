/** A disk that is really full: a small file system in memory, in a mount namespace that ends with its process. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

const INNER = join(import.meta.dirname, 'store-full-disk.js')
const SETUP = 'mount -t tmpfs -o size=1m tmpfs "$1"; exec "$0" "$2" "$1/data"'

const directory = t.testdir()
const canMount = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', directory]).status === 0
const skip = canMount ? false : 'needs unshare --mount, and the right to mount'

t.test('in a mount namespace', { skip }, async t => {
  const args = ['--mount', '--', 'sh', '-ec', SETUP, process.execPath, directory, INNER]
  await t.spawn('unshare', args, {}, 'a full disk')
})
