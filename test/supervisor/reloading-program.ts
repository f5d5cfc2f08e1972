/**
 * A program that has worker processes and reloads: each line of standard input is the file of a configuration to go on
 * with. The log goes to standard output, and so does what came of each reload.
 */
import { createInterface } from 'node:readline'
import { createLogger, loadConfig } from '../../src/index.js'
import { startSupervisor } from '../../src/supervisor/supervisor.js'
import { createFork } from '../../src/supervisor/worker-process.js'

const [program = '', file = ''] = process.argv.slice(2)
const print = (text: string) => void process.stdout.write(text)
const logger = createLogger('info', { write: print })
const loaded = await loadConfig(file)
const running = await startSupervisor(loaded, {
  logger,
  startId: 'abc',
  workers: 2,
  reusePort: false,
  fork: createFork(program),
  passLog: print,
  passError: text => void process.stderr.write(text),
})
logger.info({ event: 'listening', proxy: running.proxy[0] })
for await (const next of createInterface({ input: process.stdin })) {
  const { closedTunnels, needsRestart } = await running.reload(await loadConfig(next))
  logger.info({ event: 'reloaded', closedTunnels, needsRestart })
}
await running.drain()
