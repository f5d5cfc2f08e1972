/** Processes that share a directory and are killed at any moment. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { blockBytes } from '../../../../src/upstream/cache/disk/layout.js'
import { OTHER_PROCESS_MS, until } from '../../../kit/until.js'
import { temporaryDirectory } from '../../../kit/processes/command.js'
import { bytesOf, contentOf, entryFiles, filesBelow, keyOf, openStore } from '../disk-stores.js'

const PROGRAM = fileURLToPath(new URL('writing-program.js', import.meta.url))
const ROUNDS = 8
const HOUR_MS = 60 * 60_000

t.test(
  'whenever two processes are killed, no entry is half there, and all that they left goes',
  { timeout: 120_000 },
  async t => {
    const directory = join(await temporaryDirectory(t), 'cache')
    let found = 0
    for (let round = 0; round < ROUNDS; round++) {
      const children = ['a', 'b'].map(name =>
        spawn(process.execPath, [PROGRAM, directory, name], { stdio: ['ignore', 'pipe', 'pipe'] }),
      )
      let lines = 0
      let errors = ''
      for (const child of children) {
        child.stdout.on('data', (text: Buffer) => {
          lines += text.toString().split('\n').length - 1
        })
        child.stderr.on('data', (text: Buffer) => {
          errors += text.toString()
        })
      }
      // Wherever they are by then: each time somewhere else.
      await until('entries', () => lines >= 20 + round * 13, {
        everyMs: OTHER_PROCESS_MS,
        seen: () => [lines, errors],
      })
      await Promise.all(
        children.map(async child => {
          const closed = once(child, 'close')
          child.kill('SIGKILL')
          await closed
        }),
      )
      t.equal(errors, '', 'they had nothing to complain about')

      const { store, messages } = openStore(t, directory)
      for (let i = 0; i < 40; i++) {
        for (const entry of await store.find(keyOf(`/${i}`))) {
          found++
          const content = await contentOf(store, entry)
          if (!content?.equals(bytesOf(entry.length, entry.length)))
            t.fail(`entry ${i} of ${entry.length} bytes`)
        }
      }
      t.same(messages, [], 'nothing is damaged')
      const temporary = (): string[] => filesBelow(directory).filter(file => file.startsWith('tmp/'))
      await until('the temporary files to be gone', () => temporary().length === 0, { seen: temporary })
      await store.close()
    }
    t.ok(found > 20, `${found} entries`)

    // Contents without a head, too, once they are old; and then the count is exact.
    const { store } = openStore(t, directory, { wallClock: () => Date.now() + HOUR_MS })
    const held = (): number =>
      entryFiles(directory).reduce(
        (sum, file) =>
          sum + blockBytes(statSync(join(directory, file), { throwIfNoEntry: false })?.size ?? 0),
        0,
      )
    const heads = (): number => entryFiles(directory).filter(file => file.endsWith('.head')).length
    await until('the count', async () => {
      const { bytes, entries } = await store.stats()
      return bytes === held() && entries === heads()
    })
    const bodies = entryFiles(directory).filter(file => file.endsWith('.body'))
    t.same(
      bodies.filter(file => !entryFiles(directory).includes(file.replace(/body$/, 'head'))),
      [],
    )
  },
)
