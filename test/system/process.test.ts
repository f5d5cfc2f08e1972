/** The program as a process: its output, how it stops, and its exit codes. */
import { EventEmitter, once } from 'node:events'
import { readdir, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { temporaryDirectory } from '../kit/processes/command.js'
import { startOrigin } from './origin.js'
import { allowing, needsBuild, ROOT, runSluice, startSluice } from './program.js'

const skip = needsBuild()

t.test('prints where it listens, serves /health there, and exits with 0 on SIGTERM', { skip }, async t => {
  const sluice = await startSluice(t, allowing(80))
  const response = await fetch(`${sluice.adminUrl}/health`)
  t.equal(response.status, 200)
  t.equal(await sluice.stop(), 0)
})

t.test('SIGTERM waits for the request in progress and closes idle connections', { skip }, async t => {
  const requests = new EventEmitter()
  const arrived = once(requests, 'arrived') as Promise<[ServerResponse]>
  const origin = await startOrigin(t, undefined, (_request, response) => requests.emit('arrived', response))
  const sluice = await startSluice(t, allowing(origin.port))
  const idle = connect(sluice.proxyPort, '127.0.0.1')
  const busy = connect(sluice.proxyPort, '127.0.0.1')
  t.teardown(() => {
    idle.destroy()
    busy.destroy()
  })
  busy.write(`GET ${origin.url}/ HTTP/1.1\r\nHost: 127.0.0.1:${origin.port}\r\n\r\n`)
  const answer = text(busy)
  const early = answer.then(answered => {
    throw new Error(`answered before the origin did: ${answered}`)
  })
  const [response] = await Promise.race([arrived, early])
  const stopped = sluice.stop()
  t.equal(await text(idle), '')
  response.end('whole')
  t.match(await answer, /^HTTP\/1\.1 200 OK\r\n[\s\S]*whole/)
  t.equal(await stopped, 0)
})

t.test('exits with 64 on a command line it does not understand', { skip }, async t => {
  for (const args of [['--no-such-option'], ['no-such-command'], ['check']]) {
    const { code, stderr } = await runSluice(args)
    t.equal(code, 64, args.join(' '))
    t.not(stderr, '')
  }
})

t.test('exits with 69 if it cannot listen', { skip }, async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const { code, stderr, stdout } = await runSluice([
    '--listen',
    `127.0.0.1:${port}`,
    '--admin',
    '127.0.0.1:0',
  ])
  t.equal(code, 69)
  t.match(stderr + stdout, new RegExp(`127\\.0\\.0\\.1:${port}`))
})

t.test('exits with 78 on an invalid configuration and prints where it is invalid', { skip }, async t => {
  const file = join(await temporaryDirectory(t), 'bad.yaml')
  await writeFile(file, 'version: 1\nconect: {}\n')
  for (const args of [
    ['check', file],
    ['--config', file],
  ]) {
    const { code, stderr, stdout } = await runSluice(args)
    t.equal(code, 78)
    t.match(stderr + stdout, /bad\.yaml:2:1: .*connect/)
  }
  t.equal((await runSluice(['check', join(file, 'missing')])).code, 78)
})

t.test('accepts every configuration the project ships', { skip }, async t => {
  const examples = await readdir(join(ROOT, 'config/examples'), { withFileTypes: true })
  // A folder is a configuration of several files, and its sluice.yaml includes the others.
  const paths = examples.map(entry => `config/examples/${entry.name}${entry.isFile() ? '' : '/sluice.yaml'}`)
  for (const file of ['config/default.yaml', 'docker/sluice.yaml', ...paths]) {
    const { code, stdout, stderr } = await runSluice(['check', file])
    t.equal(code, 0, stderr)
    t.match(stdout, `${file}: ok`)
  }
})
