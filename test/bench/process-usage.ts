/** The processor time and the resident memory of processes, from /proc (Linux). */
import { readFileSync } from 'node:fs'

/** Ticks per second of the times in /proc; the same on every Linux that Node supports. */
const TICKS = 100

/** Seconds of processor time so far, user and system, including descendants. */
export function cpuSeconds(pid: number): number {
  return sumOver(pid, id => {
    const stat = readFileSync(`/proc/${id}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) / TICKS
  })
}

/** Seconds that a core has been busy so far, for any process. */
export function coreSeconds(core: number): number {
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(readFileSync('/proc/stat', 'latin1'))?.[1] ?? ''
  const [user = 0, nice = 0, system = 0, , , interrupt = 0, softInterrupt = 0] = line.split(' ').map(Number)
  return (user + nice + system + interrupt + softInterrupt) / TICKS
}

/** Resident bytes, including descendants. */
export function residentBytes(pid: number): number {
  return sumOver(pid, id => {
    const status = readFileSync(`/proc/${id}/status`, 'latin1')
    return Number(/^VmRSS:\s*(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024
  })
}

/** A process that ends meanwhile counts as nothing. */
function sumOver(pid: number, value: (pid: number) => number): number {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean)
    return children.reduce((sum, child) => sum + sumOver(Number(child), value), value(pid))
  } catch {
    return 0
  }
}
