/** The systemd units, checked by systemd's own tools, which need no running systemd. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { ROOT } from './program.js'

const FOLDER = join(ROOT, 'docker/systemd')
/** The exposure level in the unit of `--threshold`. Network access alone accounts for half of it. */
const MOST_EXPOSED = 20

const skip = needs('systemd-analyze')

/** The values of a key, in the order of the lines. */
function values(unit: string, key: string): string[] {
  return [...unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(match => match[1] ?? '')
}

/** Writes the units, with the Node of this machine, to a folder for systemd-analyze. */
async function install(t: Test, change: (service: string) => string = text => text): Promise<string[]> {
  const directory = await temporaryDirectory(t)
  const service = await readFile(join(FOLDER, 'sluice.service'), 'utf8')
  const here = service.replace('/usr/bin/node', process.execPath)
  await writeFile(join(directory, 'sluice.service'), change(here))
  await writeFile(join(directory, 'sluice.socket'), await readFile(join(FOLDER, 'sluice.socket')))
  return [join(directory, 'sluice.service'), join(directory, 'sluice.socket')]
}

t.test('systemd has no complaints about the units', { skip }, async t => {
  const verify = (units: string[]) => run('systemd-analyze', ['verify', '--man=no', ...units])
  t.same(await verify(await install(t)), { code: 0, stdout: '', stderr: '' })
  const misspelt = await verify(await install(t, text => text.replace('PrivateTmp=', 'PrivateTemp=')))
  t.match(misspelt.stderr, /Unknown key .*'PrivateTemp'/)
})

t.test('systemd rates the service as well protected', { skip }, async t => {
  const judge = async (units: string[]) => {
    const options = ['--offline=true', '--no-pager', `--threshold=${MOST_EXPOSED}`]
    return run('systemd-analyze', ['security', ...options, ...units.slice(0, 1)])
  }
  const { code, stdout, stderr } = await judge(await install(t))
  t.equal(code, 0, /^.*Overall exposure.*$/m.exec(stdout)?.[0] ?? stderr)
  const loosened = await judge(
    await install(t, text => text.replace(/^(SystemCallFilter|CapabilityBoundingSet)=.*$/gm, '')),
  )
  t.equal(loosened.code, 1)
})

t.test('the service fits the program', async t => {
  const service = await readFile(join(FOLDER, 'sluice.service'), 'utf8')
  const [start = ''] = values(service, 'ExecStart')
  t.match(start, / \/opt\/sluice\/dist\/bin\.js run --config \/etc\/sluice\/sluice\.yaml$/)
  t.same(values(service, 'ConfigurationDirectory'), ['sluice'])
  t.same(values(service, 'RestartPreventExitStatus'), ['64 78'])
  const [seconds = ''] = values(service, 'TimeoutStopSec')
  t.ok(Number.parseInt(seconds, 10) * 1000 > parseConfig('version: 1').config.shutdown.drainMs)
  t.notOk(/^MemoryDenyWriteExecute=/m.test(service))
  t.same(values(service, 'MemoryMax'), ['1G'])
  const [tasks = ''] = values(service, 'TasksMax')
  const [, threads = ''] = /UV_THREADPOOL_SIZE=(\d+)/.exec(service) ?? []
  t.ok(Number(tasks) >= 4 * (Number(threads) + 26), 'room for four processes')
})
