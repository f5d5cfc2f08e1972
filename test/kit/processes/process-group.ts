/** Processes and their groups, from /proc (Linux): what a program that leads one has left behind. */
import { readdirSync, readFileSync } from 'node:fs'
import { OTHER_PROCESS_MS, until } from '../until.js'

/** Where proc(5) says they are, among the fields behind the name. */
const STATE = 0
const GROUP = 2
const THREADS = 17

/** `T` when it is stopped, `Z` when it is dead and nobody has asked how it ended; undefined when it is gone. */
export function stateOf(pid: number): string | undefined {
  return statOf(pid)[STATE]
}

/**
 * Whether it is gone, or dead and not yet fetched by whoever took it over. Of a process that is killed the first thread
 * may be dead while others still hold its files and ports: it has ended when none is left beside it.
 */
export function hasEnded(pid: number): boolean {
  return isOver(statOf(pid))
}

/** @returns process ids of those that have not ended */
export function processesOf(group: number): number[] {
  return readdirSync('/proc').flatMap(name => {
    const pid = Number(name)
    if (!Number.isInteger(pid)) return []
    const fields = statOf(pid)
    return Number(fields[GROUP]) === group && !isOver(fields) ? [pid] : []
  })
}

function isOver(fields: readonly string[]): boolean {
  return fields.length === 0 || (fields[STATE] === 'Z' && Number(fields[THREADS]) <= 1)
}

/** Halts a process; it does nothing more once this resolves. */
export async function halt(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  await until(`process ${pid} to halt`, () => stateOf(pid) === 'T', {
    everyMs: OTHER_PROCESS_MS,
    seen: () => stateOf(pid),
  })
}

/** Ends all of it by force. */
export function killGroup(group: number): void {
  for (const pid of processesOf(group)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch (error) {
      // It has ended in between.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

/** The fields behind the name, which may hold anything, of /proc/PID/stat. */
function statOf(pid: number): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}
