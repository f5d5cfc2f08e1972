import t, { type Test } from 'tap'
import { PatchThread } from '../../../src/origin/store/patch-thread.js'
import { turns } from '../../kit/peers/until-stable.js'
import { countThreads } from '../../kit/processes/count-threads.js'

const { signal } = new AbortController()
const job = (target: string, document: string) => ({
  kind: 'merge-patch' as const,
  target: Buffer.from(target),
  document: Buffer.from(document),
})

/** A worker script that reports each message, and answers when the test says so. */
function scripted(t: Test, script: string): URL {
  const folder = t.testdir({ 'thread.mjs': `import { parentPort } from 'node:worker_threads'\n${script}` })
  return new URL(`file://${folder}/thread.mjs`)
}

t.test(
  'one thread, started for the first patch, applies all patches without blocking the event loop',
  async t => {
    const threads = countThreads(t)
    const thread = new PatchThread()
    t.equal(threads.started, 0)
    let loopTurns = 0
    let isOver = false
    const count = (): void => {
      loopTurns++
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    const results = await Promise.all(
      Array.from({ length: 5 }, (_, i) => thread.apply(job('{"a":1}', `{"b":${i}}`), 'a', signal)),
    )
    isOver = true
    t.same(
      results.map(String),
      ['0', '1', '2', '3', '4'].map(b => `{"a":1,"b":${b}}`),
    )
    t.ok(loopTurns > 5)
    for (const [target, document, status, detail] of [
      ['{}', 'no JSON', 400, 'The patch document is malformed: not JSON.'],
      ['no JSON', '{}', 422, 'The patch cannot be applied, and nothing was changed: not JSON.'],
    ] as const) {
      await t.rejects(thread.apply(job(target, document), 'a', signal), {
        name: 'ProxyError',
        status,
        detail,
      })
    }
    t.equal(threads.started, 1)
    await thread.close()
    t.equal(threads.ended, 1)
  },
)

t.test('a client that leaves terminates the thread, and the next patch starts another', async t => {
  const threads = countThreads(t)
  const script = `parentPort.on('message', ({ target }) => { if (target.length === 0) for (;;); parentPort.postMessage({ content: target }) })`
  const thread = new PatchThread(scripted(t, script))
  const [busy, queued] = [new AbortController(), new AbortController()]
  const stuck = thread.apply(job('', ''), 'a', busy.signal)
  const waiting = thread.apply(job('never', ''), 'a', queued.signal)
  const last = thread.apply(job('last', ''), 'a', signal)
  await turns()
  queued.abort()
  await t.rejects(waiting, { name: 'ClientGone' })
  t.equal(threads.started, 1)
  busy.abort()
  await t.rejects(stuck, { name: 'ClientGone' })
  t.equal(String(await last), 'last')
  t.equal(threads.started, 2)
  await thread.close()
  t.equal(threads.ended, 2)
})

t.test('a thread that fails only fails the patch in progress', async t => {
  const threads = countThreads(t)
  const script = `parentPort.on('message', ({ target }) => { if (target.length === 0) throw new Error('broken'); parentPort.postMessage({ content: target }) })`
  const thread = new PatchThread(scripted(t, script))
  const all = ['a', '', 'b'].map(target => thread.apply(job(target, ''), 'a', signal))
  t.equal(String(await all[0]), 'a')
  await t.rejects(all[1] as Promise<Buffer>, { message: 'broken' })
  t.equal(String(await all[2]), 'b')
  t.equal(threads.started, 2)
  await thread.close()
})

t.test('a patch that takes too much memory is refused, and the process survives', async t => {
  const script = `parentPort.on('message', () => { const all = []; for (;;) all.push(new Array(1e5).fill({})) })`
  const thread = new PatchThread(scripted(t, script), 16)
  await t.rejects(thread.apply(job('', ''), 'a', signal), {
    name: 'ProxyError',
    status: 422,
    detail: /memory/,
  })
  await thread.close()
})
