/** Full disks: small file systems, in a mount namespace that is removed with its process. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

const RUN = 'exec "$0" "$2" "$1/data"'
const NO_BLOCK = `mount -t tmpfs -o size=1m tmpfs "$1"; ${RUN}`
/** A file system in memory counts each name as an inode, unlike one on a disk. */
const MAKE = 'truncate -s 8m "$1/disk"; mkfs.ext4 -q -N 250 "$1/disk"; mount -o loop "$1/disk" "$1"'

const directory = t.testdir()
const unshare = (...args: string[]) => spawnSync('unshare', ['--mount', ...args]).status === 0
const canMount = unshare('mount', '-t', 'tmpfs', 'tmpfs', directory)
const canMountDisk = unshare('sh', '-ec', MAKE, '-', directory)

for (const [name, script, setup, skip] of [
  ['a full disk', 'store-full-disk.js', NO_BLOCK, !canMount],
  ['a disk without an inode left', 'store-no-inode.js', `${MAKE}; ${RUN}`, !canMountDisk],
] as const) {
  t.test(
    'in a mount namespace',
    { skip: skip && 'needs unshare --mount, and the right to mount' },
    async t => {
      const inner = join(import.meta.dirname, script)
      const args = ['--mount', '--', 'sh', '-ec', setup, process.execPath, directory, inner]
      await t.spawn('unshare', args, {}, name)
    },
  )
}
