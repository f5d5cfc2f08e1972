/**
 * Starts every process of tests there is: what `tap run` is given, as one file. The files that it is given itself it
 * starts with hooks into the loader of modules, for coverage and mocks, and so it does with all that they start. That
 * costs more than most of them, and nothing here has a use for it.
 */
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

/** Of the processes that groups.ts has made. */
const ENTRIES = fileURLToPath(new URL('../../run/', import.meta.url))

/** How long a process may be silent at its start; then it says itself how long its tests may take. */
const START_LIMIT_MS = 60_000

/** tap hands its hooks on to what it starts; whatever else was asked of Node stays. */
function ownNodeOptions(): string {
  return (process.env['NODE_OPTIONS'] ?? '').replace(/"?--import=[^" ]*@tapjs[^" ]*"?/g, '').trim()
}

t.setTimeout(0)
// Of what runs side by side something always waits.
t.jobs = availableParallelism() + 1
for (const name of readdirSync(ENTRIES).sort()) {
  const command = [`NODE_OPTIONS=${ownNodeOptions()}`, process.execPath, '--enable-source-maps']
  const told = { name, timeout: START_LIMIT_MS, buffered: true, at: null, stack: '' }
  void t.spawn('env', [...command, join(ENTRIES, name)], told)
}
