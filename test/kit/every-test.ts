/**
 * Checks after each test of this process what it has left behind. Every part of the kit that opens something imports
 * this file, and `--import` loads it for test files that use no part of the kit.
 */
import { isMainThread } from 'node:worker_threads'
import { checkEach } from './left-behind.js'

// A thread or process that a test starts may preload the same modules, and is not a test.
if (isMainThread && process.argv[1]?.endsWith('.test.js') === true) {
  const { default: root } = await import('tap')
  checkEach(root)
}
