/**
 * Runs the suite of cache-tests.fyi through Sluice, as a gateway and as a forward proxy. Prints the score and every failure,
 * and fails if a test that passed before does not pass now.
 */
import type { Owner } from '../kit/processes/command.js'
import { EXCEPTIONS, type Exception, exceptionOf, unknownIds } from './exceptions.js'
import { type Options, parseOptions, USAGE } from './options.js'
import { SUITE } from './packages.js'
import { readPasses, writePasses } from './passes.js'
import { compare, KINDS, type Outcome, passing, scoreOf } from './score.js'
import { isTargeted } from './targeted.js'
import { startSuite, type SuiteRun, throughCache, throughSluice, type Way } from './ways.js'

/** What has to be ended at the end of the run, in reverse order of its start. */
class Ends implements Owner {
  readonly #ends: (() => unknown)[] = []

  teardown(end: () => unknown): void {
    this.#ends.push(end)
  }

  async run(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end()
  }
}

/** @returns whether every test that passed before still passes */
async function main(options: Options, ends: Ends): Promise<boolean> {
  const suite = await startSuite(ends, options.port, options.only)
  const runs = options.ways.map(way => runWay(options, ends, suite, way))
  // If one fails, the others must have started their processes, or those would outlive the run.
  await Promise.allSettled(runs)
  const outcomes = await Promise.all(runs)
  let kept = true
  for (const [index, way] of options.ways.entries()) {
    const those = outcomes[index] ?? []
    process.stdout.write(report(way, those))
    if (options.only === undefined) refuseUnknown(those)
    if (options.only !== undefined) kept &&= those.every(({ verdict }) => verdict === 'pass')
    else if (options.update) await writePasses(way, passing(those))
    else if (options.peer === undefined) kept = (await holds(way, those)) && kept
  }
  return kept
}

function runWay(options: Options, ends: Ends, suite: SuiteRun, way: Way): Promise<readonly Outcome[]> {
  if (options.peer !== undefined) return throughCache(suite, way, options.peer)
  return throughSluice(ends, suite, way, options.store, options)
}

/** @throws Error if the suite no longer has a test that is listed as an exception */
function refuseUnknown(outcomes: readonly Outcome[]): void {
  const unknown = unknownIds(outcomes.map(({ id }) => id))
  if (unknown.length > 0) throw new Error(`the suite has no test ${unknown.join(', ')}`)
}

/** Prints which tests are lost and gained. @returns whether none is lost */
async function holds(way: Way, outcomes: readonly Outcome[]): Promise<boolean> {
  const { lost, gained } = compare(await readPasses(way), outcomes)
  for (const id of lost) process.stdout.write(`${way}: ${id} passed before, and does not pass now\n`)
  for (const id of gained)
    process.stdout.write(`${way}: ${id} passes now, and is not in the list; add it with --update\n`)
  return lost.length === 0
}

function report(way: Way, outcomes: readonly Outcome[]): string {
  const ours = outcomes.filter(({ id }) => isTargeted(id))
  const theirs = outcomes.filter(({ id }) => !isTargeted(id))
  const counted = theirs.filter(({ id }) => exceptionOf(id) === undefined)
  return [
    `${SUITE}, ${way}: ${scores(counted, theirs)}\n`,
    ...failures(counted),
    ...EXCEPTIONS.map(exception => notCounted(exception, theirs)),
    `CDN-Cache-Control (RFC 9213), ${way}: ${scores(ours, ours)}\n`,
    ...failures(ours),
  ].join('')
}

function scores(counted: readonly Outcome[], all: readonly Outcome[]): string {
  const [required, optimal, check] = KINDS.map(kind => {
    const { passed, of } = scoreOf(counted, kind)
    const left = scoreOf(all, kind).of - of
    const note = left === 0 ? '' : ` (${left} not counted)`
    return kind === 'check'
      ? `check ${passed} yes, ${of - passed} no${note}`
      : `${kind} ${passed} of ${of}${note}`
  })
  return `${required}, ${optimal}, ${check}`
}

function failures(outcomes: readonly Outcome[]): readonly string[] {
  return outcomes
    .filter(({ verdict }) => verdict !== 'pass')
    .map(({ id, kind, verdict, message }) => {
      const word = kind === 'check' && verdict === 'fail' ? 'no' : verdict
      return `  ${kind.padEnd(8)}  ${word.padEnd(10)}  ${id}: ${message}\n`
    })
}

function notCounted(exception: Exception, outcomes: readonly Outcome[]): string {
  const those = outcomes.filter(({ id }) => exceptionOf(id) === exception)
  const passed = those.filter(({ verdict }) => verdict === 'pass').length
  const passes = `${passed} of ${those.length} pass`
  if (those.length === 0) return ''
  return `not counted, because ${exception.because}; ${passes}:\n${failures(those).join('')}`
}

let options: Options | undefined
const ends = new Ends()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => void ends.run().finally(() => process.exit(1)))
}
try {
  const args = process.argv.slice(2)
  if (args.includes('--help')) process.stdout.write(USAGE)
  else {
    options = parseOptions(args)
    if (!(await main(options, ends))) process.exitCode = 1
  }
} catch (error) {
  process.stderr.write(`conformance: ${error instanceof Error ? error.message : String(error)}\n`)
  if (options === undefined) process.stderr.write(USAGE)
  process.exitCode = 2
} finally {
  await ends.run()
}
