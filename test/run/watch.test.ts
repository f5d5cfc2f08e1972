/** Files that change in various ways, in real folders. */
import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { FileWatch, systemSchedule } from '../../src/run/watch.js'
import { ManualSchedule } from '../kit/fakes/manual-schedule.js'
import { Changes, until } from '../kit/until.js'

/** Only by events: no polling happens before the test ends. */
const BY_EVENTS = { quietMs: 10, pollMs: 600_000 }
const NO_EVENTS = {
  watchFolder: () => {
    throw new Error('ENOSPC')
  },
}

/** Watches with real timers; `change` waits for a reported change, and `told` counts them. */
function watching(t: Test, paths: readonly string[], options: object) {
  // Watching does not keep the process alive; a waiting test does.
  const alive = setInterval(() => {}, 60_000)
  let told = 0
  let taken = 0
  const changes = new Changes()
  const watch = new FileWatch({
    ...options,
    onChange: () => {
      told += 1
      changes.notify()
    },
  })
  t.teardown(() => {
    watch.close()
    clearInterval(alive)
  })
  watch.watch(paths)
  return {
    watch,
    change: async () => {
      await until('a change to be told', () => told !== taken, { changes })
      taken = told
    },
  }
}

/** The layout of a Kubernetes volume, in which all files change at once: links through `..data`. */
function volume(t: Test) {
  const folder = t.testdir({ '..1': { 'a.yaml': 'one' } })
  symlinkSync('..1', join(folder, '..data'))
  symlinkSync('..data/a.yaml', join(folder, 'a.yaml'))
  let version = 1
  return {
    path: join(folder, 'a.yaml'),
    swap: (content: string) => {
      version += 1
      mkdirSync(join(folder, `..${version}`))
      writeFileSync(join(folder, `..${version}`, 'a.yaml'), content)
      symlinkSync(`..${version}`, join(folder, '..data_tmp'))
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
      rmSync(join(folder, `..${version - 1}`), { recursive: true })
    },
  }
}

for (const [how, options] of [
  ['by events', BY_EVENTS],
  ['without any events', { ...NO_EVENTS, quietMs: 10, pollMs: 20 }],
] as const) {
  t.test(`notices changes ${how}`, async t => {
    t.test('of a file that is written in place', async t => {
      const path = join(t.testdir({ a: 'one' }), 'a')
      const { change } = watching(t, [path], options)
      await change()
      writeFileSync(path, 'another')
      await change()
      writeFileSync(path, 'a third')
      await change()
    })

    t.test('of a file that is replaced by a rename', async t => {
      const folder = t.testdir({ a: 'one' })
      const path = join(folder, 'a')
      const { change } = watching(t, [path], options)
      await change()
      for (const text of ['two', 'six']) {
        writeFileSync(join(folder, '.a.new'), text)
        renameSync(join(folder, '.a.new'), path)
        await change()
      }
    })

    t.test('of a file that is removed and created again', async t => {
      const path = join(t.testdir({ a: 'one' }), 'a')
      const { change } = watching(t, [path], options)
      await change()
      unlinkSync(path)
      await change()
      writeFileSync(path, 'one')
      await change()
    })

    t.test('of a volume whose link `..data` leads to another folder, again and again', async t => {
      const { path, swap } = volume(t)
      const { change } = watching(t, [path], options)
      await change()
      for (const text of ['two', 'one', 'two']) {
        swap(text)
        await change()
      }
    })

    t.test('of a file behind a link to another folder', async t => {
      const folder = t.testdir({ here: {}, there: { a: 'one' } })
      symlinkSync('../there/a', join(folder, 'here/link'))
      const { change } = watching(t, [join(folder, 'here/link')], options)
      await change()
      writeFileSync(join(folder, 'there/a'), 'another')
      await change()
    })

    t.test('of a file behind links that is removed and created again', async t => {
      const folder = t.testdir({ here: {}, between: {}, there: { a: 'one' } })
      symlinkSync(join(folder, 'between/link'), join(folder, 'here/link'))
      symlinkSync('../there/a', join(folder, 'between/link'))
      const { change } = watching(t, [join(folder, 'here/link')], options)
      await change()
      unlinkSync(join(folder, 'there/a'))
      await change()
      writeFileSync(join(folder, 'there/a'), 'one')
      await change()
    })

    t.test('of any of several files, also of a missing one', async t => {
      const folder = t.testdir({ one: { a: '' }, two: { b: '' } })
      const paths = [join(folder, 'one/a'), join(folder, 'two/b'), join(folder, 'two/c')]
      const { change } = watching(t, paths, options)
      await change()
      for (const path of paths) {
        writeFileSync(path, 'new')
        await change()
      }
    })
  })
}

t.test('detects a folder that returns, and a link further up, at the next reading', async t => {
  const folder = t.testdir({ one: { a: '1' }, two: { a: '2' } })
  symlinkSync('one', join(folder, 'link'))
  const { change } = watching(t, [join(folder, 'link/a')], { quietMs: 10, pollMs: 20 })
  await change()
  symlinkSync('two', join(folder, 'new'))
  renameSync(join(folder, 'new'), join(folder, 'link'))
  await change()
  renameSync(join(folder, 'two'), join(folder, 'gone'))
  await change()
  renameSync(join(folder, 'gone'), join(folder, 'two'))
  await change()
})

/** With timers and events of the test's own. */
function watchingByHand(t: Test, ...paths: string[]) {
  const timers = new ManualSchedule()
  const folders = new Map<string, () => void>()
  let opened = 0
  let told = 0
  const watch = new FileWatch({
    onChange: () => {
      told += 1
    },
    quietMs: 200,
    pollMs: 5000,
    schedule: timers.schedule,
    watchFolder: (folder, onEvent) => {
      opened += 1
      folders.set(folder, onEvent)
      return {
        close: () => {
          opened -= 1
        },
      }
    },
  })
  t.teardown(() => watch.close())
  watch.watch(paths)
  return {
    watch,
    timers,
    folders,
    get opened() {
      return opened
    },
    get told() {
      return told
    },
    event: () => {
      for (const tell of folders.values()) tell()
    },
  }
}

t.test('a file that is being written is not reported before it stops changing', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const watched = watchingByHand(t, path)
  const { timers } = watched
  t.same(timers.running, [200])
  await timers.fireToNext()
  await timers.fireToNext()
  t.equal(watched.told, 1, 'it may have changed since it was read')
  t.same(timers.running, [5000])
  writeFileSync(path, 'first half')
  watched.event()
  t.same(timers.running, [200], 'an event takes the place of the slow look')
  await timers.fireToNext()
  writeFileSync(path, 'first half, second half')
  watched.event()
  await timers.fireToNext()
  t.equal(watched.told, 1)
  await timers.fireToNext()
  t.equal(watched.told, 2)
  t.same(timers.running, [5000])
})

t.test('many events cause one reading, and without a change no report', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const watched = watchingByHand(t, path)
  const { timers } = watched
  await timers.fireToNext()
  await timers.fireToNext()
  for (let i = 0; i < 1000; i++) watched.event()
  t.same(timers.running, [200])
  await timers.fireToNext()
  t.same(timers.running, [5000])
  await timers.fireToNext()
  t.equal(watched.told, 1)
})

t.test('many changes at once are reported once', async t => {
  const folder = t.testdir({ a: '', b: '', c: '' })
  const paths = ['a', 'b', 'c'].map(name => join(folder, name))
  const watched = watchingByHand(t, ...paths)
  const { timers } = watched
  await timers.fireToNext()
  await timers.fireToNext()
  for (const path of paths) {
    writeFileSync(path, 'new')
    watched.event()
  }
  await timers.fireToNext()
  await timers.fireToNext()
  t.equal(watched.told, 2)
  t.same(timers.running, [5000])
})

t.test('a change during a reading causes another one soon', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const watched = watchingByHand(t, path)
  const { timers } = watched
  await timers.fireToNext()
  await timers.fireToNext()
  const looked = timers.fireToNext()
  watched.event()
  t.same(timers.running, [], 'not two at once')
  await looked
  t.same(timers.running, [200])
})

t.test('content of the same size and time in another file is a change', async t => {
  const folder = t.testdir({ a: 'one', b: 'two' })
  for (const name of ['a', 'b']) utimesSync(join(folder, name), 1, 1)
  const watched = watchingByHand(t, join(folder, 'a'))
  await watched.timers.fireToNext()
  await watched.timers.fireToNext()
  renameSync(join(folder, 'b'), join(folder, 'a'))
  await watched.timers.fireToNext()
  await watched.timers.fireToNext()
  t.equal(watched.told, 2)
})

t.test('watches the folders of a file and of its links, each once, and releases them', async t => {
  const { path } = volume(t)
  const watched = watchingByHand(t, path)
  const { timers, watch } = watched
  await timers.fireToNext()
  const folder = join(path, '..')
  t.same([...watched.folders.keys()].sort(), [folder, join(folder, '..1')].sort())
  t.equal(watched.opened, 2)
  watch.watch([path])
  t.same(timers.running, [200], 'the same files are no news')
  await timers.fireToNext()
  t.equal(watched.told, 1)
  watch.watch([path, join(folder, 'b')])
  await timers.fireToNext()
  await timers.fireToNext()
  t.equal(watched.told, 2, 'others are')
  t.equal(watched.opened, 2)
  watch.close()
  t.equal(watched.opened, 0)
  t.same(timers.running, [])
  watched.event()
  t.same(timers.running, [], 'an event that comes late')
})

t.test('watching that is stopped during a reading stays stopped', async t => {
  const path = join(t.testdir({ a: '' }), 'a')
  const watched = watchingByHand(t, path)
  const { timers, watch } = watched
  timers.fire()
  watch.close()
  watch.watch([path])
  watch.close()
  const other = watchingByHand(t, path)
  await other.timers.fireToNext()
  await other.timers.fireToNext()
  t.equal(other.told, 1)
  t.equal(watched.told, 0)
  t.same(timers.running, [])
})

t.test('calls once, unless it is cancelled', async t => {
  const called: string[] = []
  const alive = setTimeout(() => {}, 60_000)
  t.teardown(() => clearTimeout(alive))
  const takeBack = systemSchedule(0, () => called.push('taken back'))
  takeBack()
  await new Promise<void>(resolve => systemSchedule(1, resolve))
  t.same(called, [])
})
