/** The processes of a group, from /proc (Linux): what a program that leads one has left behind. */
import { readdirSync, readFileSync } from 'node:fs'

/** `T` when it is stopped, `Z` when it is dead and nobody has asked how it ended; undefined when it is gone. */
export function stateOf(pid: number): string | undefined {
  return statOf(pid)[0]
}

/** @returns process ids of those that have not ended */
export function processesOf(group: number): number[] {
  return readdirSync('/proc').flatMap(name => {
    const pid = Number(name)
    if (!Number.isInteger(pid)) return []
    const [state, , of] = statOf(pid)
    return Number(of) === group && state !== 'Z' ? [pid] : []
  })
}

/** Ends all of it by force. */
export function killGroup(group: number): void {
  for (const pid of processesOf(group)) process.kill(pid, 'SIGKILL')
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
