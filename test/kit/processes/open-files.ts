/** The limit of open files for this process and its children (Linux). */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Raises the limit if possible. @returns whether this many files may be open */
export function allowOpenFiles(count: number): boolean {
  const [, limit = '0'] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? []
  if (Number(limit) >= count) return true
  return spawnSync('prlimit', [`--pid=${process.pid}`, `--nofile=${count}:${count}`]).status === 0
}
