/** Processes and their groups, from /proc (Linux): what the leader of a group has left behind. */
import { readdirSync, readFileSync } from 'node:fs'
import { OTHER_PROCESS_MS, until } from '../until.js'

/** The positions according to proc(5), among the fields after the name. */
const STATE = 0
const GROUP = 2
const THREADS = 17

/** `T` when it is stopped, `Z` when it has ended and was not waited for; undefined when it does not exist. */
export function stateOf(pid: number): string | undefined {
  return statOf(pid)[STATE]
}

/**
 * Whether a process does not exist, or has ended and was not waited for. When a process is killed, its first thread may
 * have ended while others still hold its files and ports: it has ended when no other thread is left.
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

/** Stops a process with SIGSTOP; it does nothing more once this resolves. */
export async function halt(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  await until(`process ${pid} to halt`, () => stateOf(pid) === 'T', {
    everyMs: OTHER_PROCESS_MS,
    seen: () => stateOf(pid),
  })
}

/** Kills the whole group. */
export function killGroup(group: number): void {
  for (const pid of processesOf(group)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch (error) {
      // It has ended meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

/** The fields of /proc/PID/stat after the name, which may contain anything. */
function statOf(pid: number): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}
