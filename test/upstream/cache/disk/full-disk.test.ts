/** A disk that is really full: a small file system in memory, where this may be mounted. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { run, temporaryDirectory } from '../../../kit/processes/command.js'
import { bytesOf, filesBelow, keyOf, look, MIB, openStore, put } from '../disk-stores.js'

t.test(
  'on a full disk nothing is kept or left, what is there is found, and it goes on when there is room',
  async t => {
    const mountPoint = await temporaryDirectory(t)
    const mounted = await run('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'none', mountPoint]).catch(
      () => undefined,
    )
    if (mounted?.code !== 0) {
      t.comment('no file system may be mounted here')
      return
    }
    t.teardown(() => execFileSync('umount', ['--lazy', mountPoint]))
    const directory = join(mountPoint, 'cache')
    const { store, messages } = openStore(t, directory)
    await put(store, keyOf('/kept'), bytesOf(200_000))
    await store.stats()
    const before = filesBelow(directory)
    t.equal(await put(store, keyOf('/large'), bytesOf(3 * MIB)), undefined)
    t.match(messages, [/^ENOSPC: /])
    t.same(filesBelow(directory), before)

    // Others fill it to the last byte.
    try {
      writeFileSync(join(mountPoint, 'theirs'), Buffer.alloc(4 * MIB))
    } catch {}
    for (const length of [0, 100, 20_000, 100_000]) {
      t.equal(await put(store, keyOf('/new'), bytesOf(length)), undefined, `${length} bytes`)
    }
    t.ok((await look(store, keyOf('/kept')))?.equals(bytesOf(200_000)))
    t.same(filesBelow(directory), before)
    writeFileSync(join(mountPoint, 'theirs'), '')
    t.ok(await put(store, keyOf('/new'), bytesOf(100_000)))
    t.match(await store.stats(), { entries: 2, up: true })
  },
)
