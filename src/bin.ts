#!/usr/bin/env node
/** The process: arguments, signals, standard streams and the exit code. Nothing else touches `process`. */
import cluster from 'node:cluster'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as nodeModule from 'node:module'
import { isatty } from 'node:tty'
import { fileURLToPath } from 'node:url'
import { EXIT, streamIo } from './run/io.js'
import { outOfFiles, parseOpenFilesLimit } from './run/open-files.js'

/**
 * Where Node can, it keeps beside the program what it has compiled of it, which saves a fifth of the time of a start. Its own
 * default is a folder in the temporary directory, which anybody could have put there before.
 */
const { enableCompileCache } = nodeModule as { enableCompileCache?: (directory: string) => unknown }
enableCompileCache?.(fileURLToPath(new URL('.compile-cache', import.meta.url)))

const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** How long the process may linger when all is done. */
const EXIT_LIMIT_MS = 1000

/** Exit code of a process that a second signal ends at once. */
const INTERRUPTED = 130

/** From here on a signal asks for a stop; before, and in other commands, it ends the process as it does any other. */
function awaitStop(): Promise<string> {
  return new Promise(resolve => {
    let asked = false
    for (const signal of STOP_SIGNALS) {
      process.on(signal, () => {
        if (asked) process.exit(INTERRUPTED)
        asked = true
        resolve(signal)
      })
    }
  })
}

/** Those of the standard streams that are one. */
const TERMINALS = [0, 1, 2].filter(isatty)

/**
 * The signal is also sent when a terminal goes away, which is none any more then: that ends the process, as it ends what
 * else ran there.
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

/** Node itself has raised the soft limit to the hard one by now. */
function openFilesLimit(): number | undefined {
  try {
    return parseOpenFilesLimit(readFileSync('/proc/self/limits', 'latin1'))
  } catch {
    return undefined
  }
}

/** A folder that is gone has no name any more; nothing lies in it then. */
function workingDirectory(): string {
  try {
    return process.cwd()
  } catch {
    return '/'
  }
}

/** While there are descriptors left to find it out with. */
const limitAtStart = openFilesLimit()

/** The rest of the program, which cannot be read without file descriptors. */
async function read<T>(program: Promise<T>): Promise<T> {
  try {
    return await program
  } catch (error) {
    const few = outOfFiles(error, limitAtStart)
    if (few === undefined) throw error
    process.stderr.write(`sluice: ${few}\n`)
    process.exit(EXIT.system)
  }
}

/** A program that runs on our behalf gets these from us. */
const PASSED_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * A terminal sends Ctrl-C to the program itself, too; passed on, it would arrive twice, and the second one means "now"
 * to many.
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

// Left to itself, Node opens its debugger to the machine on this signal.
process.on('SIGUSR1', () => {})

// The reader of our output may go away at any time; that is not a reason to stop serving. What is lost otherwise is told
// by the exit code, at the end: the error comes when the command may be over.
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

/** What systemd says to this process alone; programs that it starts would take it for theirs. */
const SERVICE_VARIABLES = ['LISTEN_FDS', 'LISTEN_PID', 'LISTEN_FDNAMES', 'NOTIFY_SOCKET'] as const
const service = Object.fromEntries(SERVICE_VARIABLES.map(name => [name, process.env[name]]))
for (const name of SERVICE_VARIABLES) delete process.env[name]

function onUncaught(report: (error: unknown) => void): void {
  process.on('uncaughtException', report)
  process.on('unhandledRejection', report)
}

/** What signals mean is decided by the supervisor; without it nothing is to go on. */
async function serveSupervisor(): Promise<never> {
  // A terminal sends them to all of its processes.
  for (const signal of PASSED_SIGNALS) process.on(signal, () => {})
  process.on('disconnect', () => process.exit(EXIT.software))
  const { runWorker } = await read(import('./supervisor/worker.js'))
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
  await read(
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
  // With no descriptor left it cannot be read any more.
  openFilesLimit: () => openFilesLimit() ?? limitAtStart,
  awaitStop,
  onReload,
  onSignal,
  onUncaught,
  onExit: listener => process.on('exit', listener),
})

// Nothing is left to do. What does not end by itself now, a write to a reader that has stalled above all, is ended.
setTimeout(() => process.exit(), EXIT_LIMIT_MS).unref()
