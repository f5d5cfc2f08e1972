/** How many files this process, and those that it starts, may have open (Linux). */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Raises the limit where that is possible. @returns whether there may be so many */
export function allowOpenFiles(count: number): boolean {
  const [, limit = '0'] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? []
  if (Number(limit) >= count) return true
  return spawnSync('prlimit', [`--pid=${process.pid}`, `--nofile=${count}:${count}`]).status === 0
}
