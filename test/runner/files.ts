/** Runs many test files in one process, one after another, each as a test of its own name. */
import { pathToFileURL } from 'node:url'
import { t as root, type Test } from 'tap'
import { checkEach } from '../kit/left-behind.js'

/** What files of tests import under the name `tap` while they run here. */
interface Runner {
  /** Says of which test the tests of the next file are a part. */
  use(test: Test): void
}

/** A test that takes longer hangs. Many a machine is slower than that which this was written on, and has more to do. */
const TEST_LIMIT_MS = process.env['CI'] === undefined ? 30_000 : 90_000

/** How long the process may live when nothing is left to do. */
const EXIT_LIMIT_MS = 10_000

/** @param files absolute paths by the name to show */
export async function runFiles(files: Readonly<Record<string, string>>, runner: Runner): Promise<void> {
  const watch = createWatch()
  checkEach(root)
  // All at once: a test that has none left to run has ended.
  const tests = Object.entries(files).map(([name, file]) =>
    root.test(name, async t => {
      watch(t)
      runner.use(t)
      await import(pathToFileURL(file).href)
    }),
  )
  let ended = false
  // Node ends a process that waits for what nothing can bring any more, and calls that a success.
  process.on('exit', () => {
    if (!ended) process.exitCode = 1
  })
  await Promise.all(tests)
  ended = true
  watch(undefined)
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().join(', ')
    process.stderr.write(`still open when all tests had ended: ${open}\n`)
    process.exit(1)
  }, EXIT_LIMIT_MS).unref()
}

/**
 * Limits the time of each test of a file, and that of what goes on between them. A limit that tap itself is given for a
 * file or a process would be for all of it, however often it is renewed.
 * @returns says which file is run now
 */
function createWatch(): (file: Test | undefined) => void {
  let timer: NodeJS.Timeout | undefined
  const renew = (file: Test | undefined, limitMs: number): void => {
    clearTimeout(timer)
    // The runner knows of this one, and ends a process that does not even come to its timers.
    root.setTimeout(file === undefined ? 0 : limitMs + 5000)
    // Later than the test itself, so that the test is what is told of.
    if (file === undefined) return
    timer = setTimeout(() => file.timeout({ expired: file.name }), limitMs + 1000).unref()
  }
  return file => {
    file?.on('subtestStart', test => {
      test.options.timeout ??= TEST_LIMIT_MS
      renew(file, test.options.timeout)
    })
    file?.on('subtestEnd', () => renew(file, TEST_LIMIT_MS))
    renew(file, TEST_LIMIT_MS)
  }
}
