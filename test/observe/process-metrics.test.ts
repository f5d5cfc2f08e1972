import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { serializeMetrics } from '../../src/observe/exposition.js'
import { createProcessMetrics } from '../../src/observe/process-metrics.js'
import { parseExposition } from '../kit/peers/exposition.js'

t.test('processor time, memory and start of the process, and nothing whose names are not told', async t => {
  const { families } = parseExposition(
    (await serializeMetrics([await createProcessMetrics()()], 'text')).text,
    'text',
  )
  for (const name of [
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
    'process_start_time_seconds',
  ]) {
    t.ok(families.has(name), name)
  }
  const told = /^process_|^nodejs_heap_size_|^nodejs_external_memory_bytes$|^nodejs_gc_duration_seconds$/
  t.same(
    [...families.keys()].filter(name => !told.test(name)),
    [],
  )
})

t.test('keeps no process alive', async t => {
  const module = new URL('../../src/observe/process-metrics.js', import.meta.url)
  const script = `import { createProcessMetrics } from '${module}'; await createProcessMetrics()(); console.log('done')`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    env: { PATH: process.env['PATH'] },
    timeout: 30_000,
  })
  t.equal(stdout, 'done\n')
})
