/**
 * Has each test of this process checked for what it leaves behind. Whatever of the kit opens something brings this along,
 * and `--import` brings it to files that use nothing of the kit.
 */
import { isMainThread } from 'node:worker_threads'
import { checkEach } from './left-behind.js'

// A thread or process that a test starts may be preloaded with the same modules, and is no test.
if (isMainThread && process.argv[1]?.endsWith('.test.js') === true) {
  const { default: root } = await import('tap')
  checkEach(root)
}
