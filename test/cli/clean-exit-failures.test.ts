/** A program that cannot start, or is killed, leaves nothing that is in the way; nor does one that runs another. */
import t from 'tap'
import { checkNothingLeft, runCases, skip, start, startGroup } from '../kit/processes/clean-exit.js'
import { installProgram, type Program } from '../kit/processes/program.js'

t.jobs = 2

const program = await installProgram(t)

runCases(t, program, [
  {
    name: 'a port that is taken, behind listeners that are bound',
    listen: ({ folder, taken }) =>
      `{ proxy: ["unix:${folder}/proxy.sock", "127.0.0.1:0", "127.0.0.1:${taken}"], admin: "unix:${folder}/admin.sock" }`,
    code: 69,
  },
  {
    name: 'an admin port that is taken',
    listen: ({ folder, taken }) =>
      `{ proxy: ["unix:${folder}/proxy.sock", "127.0.0.1:0"], admin: "127.0.0.1:${taken}" }`,
    code: 69,
  },
  {
    name: 'a folder that is missing, behind listeners that are bound',
    listen: ({ folder }) => `{ proxy: ["unix:${folder}/proxy.sock", "unix:${folder}/none/proxy.sock"] }`,
    code: 69,
  },
  { name: 'a configuration that is wrong', listen: () => '{ proxy: [nowhere] }', code: 78 },
  {
    name: 'SIGKILL, and SIGTERM to one that comes after it',
    end: async (t, running) => {
      await running.port()
      running.child.kill('SIGKILL')
      t.equal(await running.exited, null)
      await checkNothingLeft(running)
      const next = start(t, program, running.file)
      await next.port()
      next.child.kill('SIGTERM')
      t.equal(await next.exited, 0)
      await checkNothingLeft(next)
    },
    code: null,
  },
])

const WAITS = 'console.log(process.pid, new URL(process.env.HTTPS_PROXY).port); setInterval(() => {}, 1000)'

for (const [name, script, end, code] of [
  ['ends', WAITS.replace(/setInterval.*/, 'process.exitCode = 3'), () => {}, 3],
  ['is killed', WAITS, (_exec: Program, pid: number) => process.kill(pid, 'SIGKILL'), 137],
  ['is told to stop', WAITS, ({ child }: Program) => child.kill('SIGTERM'), 143],
] as const) {
  t.test(`exec, whose program ${name}`, { skip }, async t => {
    const exec = startGroup(t, [...program, 'exec', '--', process.execPath, '-e', script])
    const [, pid = '', port = ''] = await exec.said(/^(\d+) (\d+)$/m)
    end(exec, Number(pid))
    t.equal(await exec.exited, code)
    await checkNothingLeft(exec, Number(port))
  })
}
