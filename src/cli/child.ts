/** A program run on behalf of a command: it has our standard streams, gets our signals, and is waited for. */
import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'

/** What a shell has for a program that is there but can not be run, and for one that is not there. */
const NOT_EXECUTABLE = 126
const NOT_FOUND = 127
/** A program ended by signal n has this and n. */
const SIGNALLED = 128

export interface ChildOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Calls back with each signal that asks this process to end, until the function it returns is called. */
  readonly onSignal: (listener: (signal: NodeJS.Signals) => void) => () => void
}

export interface ChildEnd {
  /** As a shell gives it. */
  readonly code: number
  /** Why the program could not be started, for people. */
  readonly problem?: string
}

/** Resolves when the program has ended; never rejects. */
export function runChild(
  command: string,
  args: readonly string[],
  { env, onSignal }: ChildOptions,
): Promise<ChildEnd> {
  return new Promise(resolve => {
    let child: ChildProcess
    try {
      child = spawn(command, args, { stdio: 'inherit', env })
    } catch (error) {
      resolve(notStarted(command, error))
      return
    }
    const ignore = onSignal(signal => void child.kill(signal))
    const finish = (end: ChildEnd): void => {
      ignore()
      resolve(end)
    }
    // A signal that can not be passed on is an error event too; the program is waited for all the same.
    child.on('error', error => {
      if (child.pid === undefined) finish(notStarted(command, error))
    })
    child.on('exit', (code, signal) => {
      finish({ code: code ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal]) })
    })
  })
}

function notStarted(command: string, error: unknown): ChildEnd {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  if (code === 'ENOENT') return { code: NOT_FOUND, problem: `${command}: no such program` }
  return { code: NOT_EXECUTABLE, problem: `${command}: can not be run (${code})` }
}
