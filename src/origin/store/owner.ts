/**
 * Whose a lock or a temporary file is, and whether that process is gone.
 *
 * Processes that share a directory see each other through `/proc`: a process is known by its id and the moment it was
 * started, on this machine since it was booted, in one namespace of ids. What can not be looked up there (another
 * container or machine, a system without /proc) is judged by its age alone.
 */
import { createHash } from 'node:crypto'
import { readFile, readlink } from 'node:fs/promises'
import { errorCode } from '../../errors.js'

/** What the system answers when no process has that number, at once or while it is asked. */
const NO_PROCESS: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH'])

export class Owner {
  /** Usable as a file name. */
  readonly id: string
  readonly #machine: string
  readonly #proc: string

  private constructor(id: string, machine: string, proc: string) {
    this.id = id
    this.#machine = machine
    this.#proc = proc
  }

  /** @param fallback names this process where there is no /proc; letters and digits */
  static async ofThisProcess(fallback: string, proc = '/proc'): Promise<Owner> {
    try {
      const boot = await readFile(`${proc}/sys/kernel/random/boot_id`, 'latin1')
      const namespace = await readlink(`${proc}/self/ns/pid`)
      const machine = createHash('sha256').update(`${boot} ${namespace}`).digest('hex').slice(0, 16)
      const pid = await readlink(`${proc}/self`)
      return new Owner(`${machine}-${pid}-${await startOf(proc, pid)}`, machine, proc)
    } catch {
      return new Owner(`x-${fallback}-0`, '', proc)
    }
  }

  /**
   * @param id of the owner in question
   * @param ageMs how long it has not been heard of
   * @param limitMs how long an owner that can not be looked up may be silent
   */
  async isGone(id: string, ageMs: number, limitMs: number): Promise<boolean> {
    if (id === this.id) return false
    const [machine, pid = '', start] = id.split('-')
    if (machine !== this.#machine || !/^\d+$/.test(pid)) return ageMs > limitMs
    try {
      return (await startOf(this.#proc, pid)) !== start
    } catch (error) {
      // Any other error says nothing of it: with no file left to open, every living owner would be robbed.
      return NO_PROCESS.has(errorCode(error))
    }
  }
}

/**
 * When a process was started, in ticks since the boot: the 22nd field, counted behind the name, which may hold anything.
 * @returns undefined for a zombie, which owns nothing any more
 */
async function startOf(proc: string, pid: string): Promise<string | undefined> {
  const stat = await readFile(`${proc}/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
}
