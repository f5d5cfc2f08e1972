/**
 * The owner of a lock or a temporary file, and whether that process still exists.
 *
 * Processes that share a directory look each other up in `/proc`. A process is identified by its id and start time, the
 * boot of the machine, and the namespace of process ids. For an owner that cannot be looked up (in another container or
 * machine, or on a system without /proc) only the age of the file counts.
 */
import { createHash } from 'node:crypto'
import { readFile, readlink } from 'node:fs/promises'
import { errorCode } from '../../errors.js'

/** Errors of the system if no process has an id: at once, or while its file is being read. */
const NO_PROCESS: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESRCH'])

export class Owner {
  /** Identifies the process; can be used in a file name. */
  readonly id: string
  readonly #machine: string
  readonly #proc: string

  private constructor(id: string, machine: string, proc: string) {
    this.id = id
    this.#machine = machine
    this.#proc = proc
  }

  /** @param fallback identifies this process if there is no /proc; letters and digits */
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
   * Whether the process of an owner no longer exists.
   * @param id the owner's id
   * @param ageMs milliseconds since the owner last changed its file
   * @param limitMs milliseconds after which an owner that cannot be looked up is taken to be gone
   */
  async isGone(id: string, ageMs: number, limitMs: number): Promise<boolean> {
    if (id === this.id) return false
    const [machine, pid = '', start] = id.split('-')
    if (machine !== this.#machine || !/^\d+$/.test(pid)) return ageMs > limitMs
    try {
      return (await startOf(this.#proc, pid)) !== start
    } catch (error) {
      // Another error, such as EMFILE, says nothing about the owner: a living process must not lose its locks.
      return NO_PROCESS.has(errorCode(error))
    }
  }
}

/**
 * The start time of a process in ticks since the boot: the 22nd field, counted after the name, which may contain anything.
 * @returns undefined for a zombie, which no longer owns anything
 */
async function startOf(proc: string, pid: string): Promise<string | undefined> {
  const stat = await readFile(`${proc}/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
}
