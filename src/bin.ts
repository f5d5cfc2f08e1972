#!/usr/bin/env node
/** The process: arguments, signals, standard streams and the exit code. No other file uses `process`. */
import cluster from 'node:cluster'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { isatty } from 'node:tty'
import { fileURLToPath } from 'node:url'
import { EXIT, streamIo } from './run/io.js'
import { outOfFiles, parseOpenFilesLimit } from './run/open-files.js'

/**
 * Where Node supports it, the compiled code is cached next to the program, which saves a fifth of the start-up time.
 * Node's own default is a folder in the temporary directory, which any user could have created before.
 */
const { enableCompileCache } = nodeModule as { enableCompileCache?: (directory: string) => unknown }
enableCompileCache?.(fileURLToPath(new URL('.compile-cache', import.meta.url)))

const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** How long the process may keep running after its work is done. */
const EXIT_LIMIT_MS = 1000

/** Exit code when a second signal ends the process at once. */
const INTERRUPTED = 130

/** Once called, the first signal requests a stop. Before, and in other commands, signals end the process as usual. */
function awaitStop(): Promise<string> {
  return new Promise(resolve => {
    let requested = false
    for (const signal of STOP_SIGNALS) {
      process.on(signal, () => {
        if (requested) process.exit(INTERRUPTED)
        requested = true
        resolve(signal)
      })
    }
  })
}

/** The standard streams that are terminals. */
const TERMINALS = [0, 1, 2].filter(isatty)

/**
 * SIGHUP is also sent when the terminal is closed; its descriptors are no terminals then. In that case the process
 * ends, like every other process of that terminal.
 */
function onReload(listener: () => void): void {
  const reload = (): void => {
    if (TERMINALS.every(isatty)) {
      listener()
      return
    }
    process.off('SIGHUP', reload)
    process.kill(process.pid, 'SIGHUP')
  }
  process.on('SIGHUP', reload)
}

/** The limit for open files; Node has already raised the soft limit to the hard one. */
function openFilesLimit(): number | undefined {
  try {
    return parseOpenFilesLimit(readFileSync('/proc/self/limits', 'latin1'))
  } catch {
    return undefined
  }
}

/** A working directory that was deleted has no path; `/` is used instead. */
function workingDirectory(): string {
  try {
    return process.cwd()
  } catch {
    return '/'
  }
}

/** Read at the start, while descriptors are available. */
const limitAtStart = openFilesLimit()

/** Imports the rest of the program, and exits with a message when no file descriptors are left for that. */
async function importProgram<T>(program: Promise<T>): Promise<T> {
  try {
    return await program
  } catch (error) {
    const message = outOfFiles(error, limitAtStart)
    if (message === undefined) throw error
    process.stderr.write(`sluice: ${message}\n`)
    process.exit(EXIT.system)
  }
}

/** The signals that are forwarded to a program that Sluice runs (`sluice exec`). */
const PASSED_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * A terminal also sends Ctrl-C to the other program itself. If it were forwarded, the program would receive it twice,
 * and many programs stop without cleaning up on the second.
 */
function onSignal(listener: (signal: NodeJS.Signals) => void): () => void {
  const listeners = PASSED_SIGNALS.map(signal => {
    const pass = (): void => {
      if (signal !== 'SIGINT' || TERMINALS.length === 0) listener(signal)
    }
    process.on(signal, pass)
    return () => process.off(signal, pass)
  })
  return () => {
    for (const remove of listeners) remove()
  }
}

// By default Node opens its debugger to every process of the machine on this signal.
process.on('SIGUSR1', () => {})

// The reader of the output may close it at any time, which is no reason to stop serving. Other errors set the exit
// code, but only at the end: the error may be reported after the command has finished.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return
  process.once('exit', code => {
    if (code === EXIT.ok) process.exitCode = EXIT.ioError
  })
})
process.stderr.on('error', () => {})

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
}

/** Variables that systemd sets for this process only; a program that it starts would otherwise use them as its own. */
const SERVICE_VARIABLES = ['LISTEN_FDS', 'LISTEN_PID', 'LISTEN_FDNAMES', 'NOTIFY_SOCKET'] as const
const service = Object.fromEntries(SERVICE_VARIABLES.map(name => [name, process.env[name]]))
for (const name of SERVICE_VARIABLES) delete process.env[name]

function onUncaught(report: (error: unknown) => void): void {
  process.on('uncaughtException', report)
  process.on('unhandledRejection', report)
}

/** A worker: the supervisor decides what signals mean, and the worker ends when the supervisor does. */
async function serveSupervisor(): Promise<never> {
  // A terminal sends these signals to every process in it.
  for (const signal of PASSED_SIGNALS) process.on(signal, () => {})
  process.on('disconnect', () => process.exit(EXIT.software))
  const { runWorker } = await importProgram(import('./supervisor/worker.js'))
  await runWorker({
    send: messages => process.send?.(messages, undefined, undefined, () => {}),
    onMessage: listener => process.on('message', listener),
    onUncaught,
    pid: process.pid,
    openFilesLimit,
    environment: process.env,
  })
  process.exit(EXIT.ok)
}

if (cluster.isWorker) await serveSupervisor()

const [{ main }, { commandOf }, { createNotify }, { parsePassedSockets }, { createFork, killWorkers }] =
  await importProgram(
    Promise.all([
      import('./cli/main.js'),
      import('./cli/invocation.js'),
      import('./run/service-manager.js'),
      import('./listener/bind.js'),
      import('./supervisor/worker-process.js'),
    ]),
  )

process.on('exit', killWorkers)

process.exitCode = await main(process.argv.slice(2), version, {
  io: streamIo(process.stdout, process.stderr, process.env),
  terminal: process.stdout.isTTY === true,
  color: process.stdout.isTTY === true && (process.env['NO_COLOR'] ?? '') === '',
  command: commandOf({ script: process.argv[1] ?? '', folder: workingDirectory(), environment: process.env }),
  startId: randomBytes(4).toString('hex'),
  build: { version, node: process.versions.node },
  pid: process.pid,
  passedSockets: parsePassedSockets(service, process.pid),
  notifyService: createNotify(service['NOTIFY_SOCKET'], process.env),
  fork: createFork(fileURLToPath(import.meta.url)),
  environment: process.env,
  node: process.execPath,
  stdin: { terminal: isatty(0), open: () => process.stdin },
  // When no descriptor is left, the limit cannot be read.
  openFilesLimit: () => openFilesLimit() ?? limitAtStart,
  awaitStop,
  onReload,
  onSignal,
  onUncaught,
  onExit: listener => process.on('exit', listener),
})

// All work is done. Whatever keeps the process alive, such as a write to a reader that has stalled, is abandoned.
setTimeout(() => process.exit(), EXIT_LIMIT_MS).unref()
