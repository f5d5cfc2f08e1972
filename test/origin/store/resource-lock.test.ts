import { createHash } from 'node:crypto'
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { readlink } from 'node:fs/promises'
import t from 'tap'
import { Owner } from '../../../src/origin/store/owner.js'
import { ResourceLocks } from '../../../src/origin/store/resource-lock.js'
import { turns } from '../../kit/peers/until-stable.js'

const KEY = 'abc'
let ids = 0
const nextId = (): string => `id${++ids}`

async function hold<T>(
  locks: ResourceLocks | undefined,
  key: string,
  work: () => Promise<T>,
  signal = new AbortController().signal,
): Promise<T | undefined> {
  return await locks?.hold(key, work, signal)
}

/** Holds the lock until `release`. */
async function holder(locks: ResourceLocks, atEnd = (): void => {}) {
  let release = (): void => {}
  let done = Promise.resolve()
  await new Promise<void>(isInside => {
    done = locks.hold(
      KEY,
      async () => {
        await new Promise<void>(resolve => {
          release = resolve
          isInside()
        })
        atEnd()
      },
      new AbortController().signal,
    )
  })
  return { release, done }
}

t.test(
  'writers of a resource run one after another within a process, those of different resources in parallel',
  async t => {
    const locks = new ResourceLocks(`${t.testdir()}/locks`, await Owner.ofThisProcess('a'), Date.now, nextId)
    const events: string[] = []
    let release = (): void => {}
    let first: Promise<void> | undefined
    await new Promise<void>(isInside => {
      first = hold(locks, KEY, async () => {
        events.push('first')
        await new Promise<void>(resolve => {
          release = resolve
          isInside()
        })
        events.push('first ends')
      })
    })
    const second = hold(locks, KEY, async () => void events.push('second'))
    await hold(locks, 'other', async () => void events.push('other'))
    release()
    await Promise.all([first, second])
    t.same(events, ['first', 'other', 'first ends', 'second'])
  },
)

t.test('the lock is released if the work fails', async t => {
  const folder = t.testdir()
  const locks = new ResourceLocks(`${folder}/locks`, await Owner.ofThisProcess('a'), Date.now, nextId)
  await t.rejects(
    hold(locks, KEY, async () => {
      throw new Error('no')
    }),
    { message: 'no' },
  )
  t.equal(await hold(locks, KEY, async () => 'done'), 'done')
  t.same(readdirSync(`${folder}/locks`), [])
})

t.test('two processes exclude each other by the lock file', async t => {
  const folder = t.testdir()
  const owner = await Owner.ofThisProcess('a')
  const all = [1, 2, 3].map(() => new ResourceLocks(`${folder}/locks`, owner, Date.now, nextId))
  let inside = 0
  let most = 0
  const work = async (): Promise<void> => {
    most = Math.max(most, ++inside)
    await readlink(`${folder}/locks/${KEY}`)
    inside--
  }
  await Promise.all(Array.from({ length: 60 }, (_, i) => hold(all[i % 3], KEY, work)))
  t.equal(most, 1)
})

t.test('the lock of a dead process is removed by exactly one other', async t => {
  const folder = t.testdir()
  const owner = await Owner.ofThisProcess('a')
  const [machine] = owner.id.split('-')
  const all = [1, 2, 3, 4].map(() => new ResourceLocks(`${folder}/locks`, owner, Date.now, nextId))
  mkdirSync(`${folder}/locks`)
  for (let round = 0; round < 30; round++) {
    symlinkSync(`${machine}-999999999-1 ${nextId()}`, `${folder}/locks/${KEY}`)
    let inside = 0
    let most = 0
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside)
      await readlink(`${folder}/locks/${KEY}`)
      inside--
    }
    await Promise.all(all.map(locks => hold(locks, KEY, work)))
    t.equal(most, 1)
  }
  t.same(readdirSync(`${folder}/locks`), [])
})

t.test('the second lock of a process that died while it removed a lock is removed, too', async t => {
  const folder = t.testdir()
  const owner = await Owner.ofThisProcess('a')
  const [machine] = owner.id.split('-')
  const locks = new ResourceLocks(`${folder}/locks`, owner, Date.now, nextId)
  mkdirSync(`${folder}/locks`)
  symlinkSync(`${machine}-999999999-1 a`, `${folder}/locks/${KEY}`)
  // The second lock is named after the text of the first.
  const claim = createHash('sha256').update(`${machine}-999999999-1 a`).digest('hex').slice(0, 16)
  symlinkSync(`${machine}-999999998-1 b`, `${folder}/locks/${KEY}.${claim}`)
  t.equal(await hold(locks, KEY, async () => 'done'), 'done')
  t.same(readdirSync(`${folder}/locks`), [])
})

t.test('an owner that was taken for dead does not remove a lock that another holds by now', async t => {
  const folder = t.testdir()
  const locks = new ResourceLocks(`${folder}/locks`, await Owner.ofThisProcess('a'), Date.now, nextId)
  const path = `${folder}/locks/${KEY}`
  await hold(locks, KEY, async () => {
    rmSync(path)
    symlinkSync('elsewhere-1-1 other', path)
  })
  t.equal(await readlink(path), 'elsewhere-1-1 other')
})

t.test('a lock whose owner cannot be looked up is respected for a minute', async t => {
  const folder = t.testdir()
  let late = 0
  const owner = await Owner.ofThisProcess('a')
  const locks = new ResourceLocks(`${folder}/locks`, owner, () => Date.now() + late, nextId)
  mkdirSync(`${folder}/locks`)
  symlinkSync('elsewhere-1-1 a', `${folder}/locks/${KEY}`)
  late = 50_000
  let done = false
  const waiting = hold(locks, KEY, async () => {
    done = true
  })
  for (let i = 0; i < 20; i++) await readlink(`${folder}/locks/${KEY}`)
  t.notOk(done)
  late = 61_000
  await waiting
  t.ok(done)
})

t.test(
  'a lock that cannot be removed fails no write, and is removed before the next write of any resource',
  async t => {
    const folder = t.testdir()
    const locks = new ResourceLocks(`${folder}/locks`, await Owner.ofThisProcess('a'), Date.now, nextId)
    for (const next of [
      () => hold(locks, KEY, async () => {}),
      () => hold(locks, 'other', async () => {}),
      () => locks.close(),
    ]) {
      const result = await hold(locks, KEY, async () => {
        renameSync(`${folder}/locks`, `${folder}/aside`)
        writeFileSync(`${folder}/locks`, 'in the way')
        return 'done'
      })
      t.equal(result, 'done')
      await locks.close()
      rmSync(`${folder}/locks`)
      renameSync(`${folder}/aside`, `${folder}/locks`)
      t.same(readdirSync(`${folder}/locks`), [KEY])
      await next()
      t.same(readdirSync(`${folder}/locks`), [])
    }
  },
)

t.test(
  'a client that has gone leaves the queue, and those after it still wait for those before it',
  async t => {
    const locks = new ResourceLocks(`${t.testdir()}/locks`, await Owner.ofThisProcess('a'), Date.now, nextId)
    const events: string[] = []
    const first = await holder(locks, () => events.push('first'))
    const client = new AbortController()
    const second = hold(locks, KEY, async () => void events.push('second'), client.signal)
    const third = hold(locks, KEY, async () => void events.push('third'))
    client.abort()
    await t.rejects(second, { name: 'ClientGone' })
    await t.rejects(
      hold(locks, KEY, async () => void events.push('late'), client.signal),
      { name: 'ClientGone' },
    )
    t.same(events, [])
    first.release()
    await Promise.all([first.done, third])
    t.same(events, ['first', 'third'])
  },
)

t.test('a client that has gone does not wait for the lock of another process', async t => {
  const folder = t.testdir()
  const locks = new ResourceLocks(`${folder}/locks`, await Owner.ofThisProcess('a'), Date.now, nextId)
  mkdirSync(`${folder}/locks`)
  symlinkSync('elsewhere-1-1 a', `${folder}/locks/${KEY}`)
  const client = new AbortController()
  const waiting = hold(locks, KEY, async () => {}, client.signal)
  for (let i = 0; i < 20; i++) await readlink(`${folder}/locks/${KEY}`)
  client.abort()
  await t.rejects(waiting, { name: 'ClientGone' })
})

t.test('the time in the queue counts towards the time limit', { timeout: 10_000 }, async t => {
  const folder = t.testdir()
  let late = 0
  const owner = await Owner.ofThisProcess('a')
  const locks = new ResourceLocks(`${folder}/locks`, owner, () => Date.now() + late, nextId)
  const path = `${folder}/locks/${KEY}`
  const first = await holder(locks, () => {
    rmSync(path)
    symlinkSync('elsewhere-1-1 a', path)
  })
  const second = hold(locks, KEY, async () => {})
  late = 15_000
  first.release()
  await first.done
  await t.rejects(second, { name: 'ProxyError', status: 503, reason: 'store_locked' })
})

t.test('a lock that is a hard link is respected for a minute, whatever its owner', async t => {
  const folder = t.testdir({ locks: {}, object: 'content' })
  let ahead = 0
  const owner = await Owner.ofThisProcess('a')
  const locks = new ResourceLocks(`${folder}/locks`, owner, () => Date.now() + ahead, nextId)
  // The content of the file is old, the link is not.
  utimesSync(`${folder}/object`, 0, 0)
  linkSync(`${folder}/object`, `${folder}/locks/${KEY}`)
  let isHeld = true
  const held = hold(locks, KEY, async () => {
    t.notOk(isHeld)
    return 'done'
  })
  await turns(100)
  isHeld = false
  ahead = 61_000
  t.equal(await held, 'done')
  t.same(readdirSync(`${folder}/locks`), [])
  t.ok(existsSync(`${folder}/object`))
})

t.test('holdIfFree does not wait for the lock', async t => {
  const folder = t.testdir()
  const owner = await Owner.ofThisProcess('a')
  const [locks, others] = [1, 2].map(() => new ResourceLocks(`${folder}/locks`, owner, Date.now, nextId))
  const done: string[] = []
  const ifFree = (name: string) => locks?.holdIfFree(KEY, async () => void done.push(name))
  t.equal(await ifFree('free'), true)
  await hold(others, KEY, async () => {
    t.equal(await ifFree('held elsewhere'), false)
  })
  await hold(locks, KEY, async () => {
    t.equal(await ifFree('held here'), false)
  })
  const events: string[] = []
  const first = locks?.holdIfFree(KEY, async () => void events.push('first'))
  const second = hold(locks, KEY, async () => void events.push('second'))
  t.equal(await ifFree('waited for'), false)
  t.equal(await first, true)
  await second
  t.same(events, ['first', 'second'], 'who asks for the lock meanwhile waits for it')
  t.same(done, ['free'])
  t.same(readdirSync(`${folder}/locks`), [])
})

t.test('for holdIfFree the lock of a dead process is free, and failed work releases the lock', async t => {
  const folder = t.testdir({ locks: {} })
  const owner = await Owner.ofThisProcess('a')
  const [machine] = owner.id.split('-')
  const locks = new ResourceLocks(`${folder}/locks`, owner, Date.now, nextId)
  symlinkSync(`${machine}-999999999-1 a`, `${folder}/locks/${KEY}`)
  const failing = locks.holdIfFree(KEY, async () => {
    throw new Error('no')
  })
  await t.rejects(failing, { message: 'no' })
  t.same(readdirSync(`${folder}/locks`), [])
})
