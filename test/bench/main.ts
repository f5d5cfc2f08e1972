/** The benchmark: Sluice compared with other proxies, in turn, each on one core. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { printCacheEntries } from './cache-entries.js'
import { printCacheStore } from './cache-store.js'
import { Children, type Cores, divideCores } from './children.js'
import { type Case, type Options, parseOptions, USAGE } from './options.js'
import { type Origins, startOrigins } from './origin.js'
import { profileCases } from './profile.js'
import { printPolicyTimes } from './policy.js'
import { printReport } from './report.js'
import { runCases } from './run.js'

/** Cases with an output of their own. */
const ALONE: readonly Case[] = ['policy', 'cache-store', 'cache-entries']

/** The exit code after a signal. */
const INTERRUPTED = 130

/** Logs are written to memory if possible: tinyproxy waits for the disk after every line. */
function logRoot(): string {
  return existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
}

async function main(options: Options): Promise<void> {
  if (!existsSync(options.program)) throw new Error(`${options.program} is missing: npm run build`)
  const cores = divideCores()
  const children = new Children(cores.proxy)
  const directory = await mkdtemp(join(options.profile ? tmpdir() : logRoot(), 'sluice-bench-'))
  // squid drops root privileges before it opens its files.
  await chmod(directory, 0o755)
  const disk = await mkdtemp(join(tmpdir(), 'sluice-bench-store-'))
  const origins = await startOrigins()
  try {
    await Promise.race([measure(options, cores, children, directory, disk, origins), interrupted()])
  } finally {
    await children.stopAll()
    origins.close()
    if (options.profile) process.stdout.write(`\nprofiles: ${directory}\n`)
    else await rm(directory, { recursive: true, force: true })
    await rm(disk, { recursive: true, force: true })
  }
}

async function measure(
  options: Options,
  cores: Cores,
  children: Children,
  directory: string,
  disk: string,
  origins: Origins,
): Promise<void> {
  if (options.profile) {
    await profileCases(options, children, directory, disk, origins)
    return
  }
  if (options.cases.some(name => !ALONE.includes(name))) {
    const results = await runCases(options, cores, children, directory, disk, origins)
    printReport(results)
    if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(results, null, 2)}\n`)
  }
  if (options.cases.includes('policy')) printPolicyTimes()
  if (options.cases.includes('cache-store')) await printCacheStore()
  if (options.cases.includes('cache-entries')) {
    await printCacheEntries(options, children, join(directory, 'entries'), origins)
  }
}

/** Rejects at the first SIGINT or SIGTERM; the child processes are terminated before this one exits. */
function interrupted(): Promise<never> {
  return new Promise((_resolve, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        process.exitCode = INTERRUPTED
        reject(new Error(`stopped by ${signal}`))
      })
    }
  })
}

let options: Options | undefined
try {
  options = parseOptions(process.argv.slice(2))
  await main(options)
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`)
  if (options === undefined) process.stderr.write(USAGE)
  process.exitCode ??= 1
}
// After an interruption the load is still running, so the process has to exit explicitly.
process.exit()
