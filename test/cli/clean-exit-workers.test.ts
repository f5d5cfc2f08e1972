/** What becomes of workers before the program stops, or as it does: nothing of them is left either. */
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { processesOf } from '../kit/processes/process-group.js'
import { type Case, runCases } from '../kit/processes/clean-exit.js'
import { startedPids } from '../kit/processes/fleet.js'
import { installProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

t.jobs = 2

runCases(t, await installProgram(t), [
  ...(['SIGTERM', 'SIGINT'] as const).map(
    (signal): Case => ({
      name: `${signal} to ${signal === 'SIGINT' ? 'all its processes' : 'it'} as its first worker starts`,
      workers: 2,
      end: async (_t, { pid }) => {
        await until('its first worker', () => processesOf(pid).length > 1)
        process.kill(signal === 'SIGINT' ? -pid : pid, signal)
      },
      code: 0,
    }),
  ),
  {
    name: 'SIGTERM as a worker takes a configuration over',
    workers: 2,
    end: async (_t, running) => {
      await running.port()
      const pids = startedPids(running)
      for (const pid of pids) process.kill(pid, 'SIGSTOP')
      writeFileSync(running.file, `${await readFile(running.file, 'utf8')}via: other\n`)
      running.child.kill('SIGHUP')
      running.child.kill('SIGTERM')
      await running.said(/"event":"stopping"/)
      for (const pid of pids) process.kill(pid, 'SIGCONT')
    },
    code: 0,
  },
  ...[1, 2].map(
    (count): Case => ({
      name: `SIGTERM after ${count} of its workers were killed`,
      workers: 2,
      end: async (_t, running) => {
        await running.port()
        for (const pid of startedPids(running).slice(0, count)) process.kill(pid, 'SIGKILL')
        running.child.kill('SIGTERM')
      },
      code: 0,
    }),
  ),
  {
    name: 'SIGTERM as the place of a worker that was killed is empty',
    workers: 2,
    end: async (_t, running) => {
      await running.port()
      for (const pid of startedPids(running)) process.kill(pid, 'SIGKILL')
      await running.said(/"event":"worker_exited"/)
      running.child.kill('SIGTERM')
    },
    code: 0,
  },
  {
    name: 'two signals while a worker hangs',
    workers: 2,
    end: async (_t, running) => {
      await running.port()
      for (const pid of startedPids(running)) process.kill(pid, 'SIGSTOP')
      running.child.kill('SIGTERM')
      await running.said(/"event":"stopping"/)
      running.child.kill('SIGTERM')
    },
    code: 130,
  },
])
