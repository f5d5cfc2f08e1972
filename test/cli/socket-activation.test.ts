/** `sluice run` as systemd starts it: with sockets that are open already, and told where to report. */
import { existsSync } from 'node:fs'
import { chmod, readFile, rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { socketPath, unixClient } from '../kit/peers/unix-socket.js'
import { needs, temporaryDirectory } from '../kit/processes/command.js'
import { installProgram, startProgram } from '../kit/processes/program.js'

t.jobs = 2

const program = await installProgram(t)
/** LISTEN_PID has to be the process itself, which only a shell that becomes it can say. */
const ACTIVATED = ['sh', '-c', 'LISTEN_PID=$$ exec "$@"', 'sh', ...program]
const LISTENING = /\{[^\n]*"event":"listening".*\n/
const FREE = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
const ASK = 'OPTIONS * HTTP/1.0\r\n\r\n'

/** A listening socket of this process, to be closed here once it is passed on: both would accept on it. */
async function open(t: Test, where: { port: number; host: string } | { path: string }) {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(where, resolve))
  t.teardown(() => server.close())
  const address = server.address()
  // Node tells nobody the descriptor.
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle
  const close = (): void => void server.close()
  return { fd, close, port: typeof address === 'object' && address !== null ? address.port : 0 }
}

t.test('serves on the sockets that are passed on, by name', async t => {
  const path = await socketPath(t)
  const [first, unix, admin] = [
    await open(t, { host: '127.0.0.1', port: 0 }),
    await open(t, { path: `${path}.made` }),
    await open(t, { host: '127.0.0.1', port: 0 }),
  ]
  // Node removes the file that it made when it closes the socket.
  await rename(`${path}.made`, path)
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  await writeFile(
    file,
    `version: 1
listen: { proxy: ["systemd:proxy"], admin: "systemd:admin" }
clients: [{ name: near, cidr: ["127.0.0.1"] }, { name: local, unix: true }]
rules: { web: { hosts: ["127.0.0.1"], ports: [any], addresses: ["127.0.0.1"] } }\n`,
  )
  const { said, child, exited } = startProgram(t, [...ACTIVATED, '--config', file], {
    env: { LISTEN_FDS: '3', LISTEN_FDNAMES: 'proxy:proxy:admin' },
    descriptors: [first.fd, unix.fd, admin.fd],
  })
  for (const { close } of [first, unix, admin]) close()
  const [line] = await said(LISTENING)
  t.match(JSON.parse(line), {
    proxy: [`127.0.0.1:${first.port}`, 'systemd:proxy'],
    admin: `127.0.0.1:${admin.port}`,
  })
  const tcp = await rawClient(t, first.port)
  tcp.write(ASK)
  t.match(await tcp.untilEnd(), /^HTTP\/1\.1 200 /)
  const local = await unixClient(t, path)
  local.write(ASK)
  t.match(await local.untilEnd(), /^HTTP\/1\.1 200 /)
  t.equal((await fetch(`http://127.0.0.1:${admin.port}/health`)).status, 200)
  const own = await rawClient(t, first.port)
  own.write(`CONNECT 127.0.0.1:${admin.port} HTTP/1.1\r\nHost: a\r\n\r\n`)
  t.match(await own.untilEnd(), /^HTTP\/1\.1 403 .* is the admin listener/, 'an own listener is known as one')
  for (const peer of [tcp, local, own]) peer.end()
  child.kill('SIGTERM')
  t.equal(await exited, 0)
  t.ok(existsSync(path), 'what systemd made is its to remove')
})

t.test('takes all sockets except admin if no name is given', async t => {
  const [web, admin] = [
    await open(t, { host: '127.0.0.1', port: 0 }),
    await open(t, { host: '127.0.0.1', port: 0 }),
  ]
  const { said, child, exited } = startProgram(
    t,
    [...ACTIVATED, '--listen', 'systemd', '--admin', 'systemd:admin'],
    {
      env: { LISTEN_FDS: '2', LISTEN_FDNAMES: 'sluice.socket:admin' },
      descriptors: [web.fd, admin.fd],
    },
  )
  for (const { close } of [web, admin]) close()
  const [line] = await said(LISTENING)
  t.match(JSON.parse(line), { proxy: [`127.0.0.1:${web.port}`], admin: `127.0.0.1:${admin.port}` })
  child.kill('SIGTERM')
  t.equal(await exited, 0)
})

t.test('a socket that is missing is 69, with what was found', async t => {
  const { fd } = await open(t, { host: '127.0.0.1', port: 0 })
  const ours = { env: { LISTEN_FDS: '1', LISTEN_FDNAMES: 'web' }, descriptors: [fd] }
  const named = startProgram(t, [...ACTIVATED, '--listen', 'systemd:proxy', '--admin', '127.0.0.1:0'], ours)
  t.equal(await named.exited, 69)
  t.equal(
    named.stderr,
    'sluice: cannot listen: listen.proxy is systemd:proxy, and systemd passed "web" (descriptor 3)\n',
  )
  const foreign = startProgram(t, [...program, '--listen', 'systemd', '--admin', '127.0.0.1:0'], {
    ...ours,
    env: { ...ours.env, LISTEN_PID: '1' },
  })
  t.equal(await foreign.exited, 69)
  t.match(foreign.stderr, /systemd passed no socket: LISTEN_PID is 1, and this process is \d+\n$/)
  const none = startProgram(t, [...program, '--listen', 'systemd', '--admin', '127.0.0.1:0'])
  t.equal(await none.exited, 69)
  t.match(none.stderr, 'listen.proxy is systemd, and systemd passed no socket: LISTEN_FDS is not set')
})

t.test('a program that exec runs gets no LISTEN_ or NOTIFY_ variables', async t => {
  const { fd } = await open(t, { host: '127.0.0.1', port: 0 })
  const print =
    'for (const name of Object.keys(process.env)) if (/^(LISTEN|NOTIFY)_/.test(name)) console.log(name)'
  const started = startProgram(
    t,
    [...ACTIVATED, 'exec', '--', process.execPath, '-e', `${print}\nconsole.log('done')`],
    { env: { LISTEN_FDS: '1', LISTEN_FDNAMES: 'a', NOTIFY_SOCKET: '/nowhere' }, descriptors: [fd] },
  )
  t.equal(await started.exited, 0)
  t.equal(started.stdout, 'done\n')
})

t.test('notifies the service manager when it is ready and when it stops', async t => {
  const folder = await temporaryDirectory(t)
  const notify = join(folder, 'systemd-notify')
  const told = join(folder, 'told')
  await writeFile(notify, `#!/bin/sh\necho "$@" "$NOTIFY_SOCKET" >> ${told}\n`)
  await chmod(notify, 0o755)
  const { said, child, exited } = startProgram(t, [...program, ...FREE], {
    env: { PATH: `${folder}${delimiter}${process.env['PATH']}`, NOTIFY_SOCKET: '/run/notify' },
  })
  await said(LISTENING)
  child.kill('SIGTERM')
  t.equal(await exited, 0)
  t.equal(await readFile(told, 'utf8'), 'READY=1 /run/notify\nSTOPPING=1 /run/notify\n')
})

t.test('continues if the service manager cannot be notified, and logs that', async t => {
  const folder = await temporaryDirectory(t)
  const notify = join(folder, 'systemd-notify')
  await writeFile(notify, '#!/bin/sh\nexit 3\n')
  await chmod(notify, 0o755)
  const { said, child, exited } = startProgram(t, [...program, ...FREE], {
    env: { PATH: `${folder}${delimiter}${process.env['PATH']}`, NOTIFY_SOCKET: '/run/notify' },
  })
  const [line] = await said(/\{[^\n]*"event":"notify_failed".*\n/)
  t.match(JSON.parse(line), { level: 'warn', error: 'systemd-notify READY=1: ended with 3' })
  child.kill('SIGTERM')
  t.equal(await exited, 0)
})

const RECEIVE = `import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("bound", flush=True)
while True:
    data, ancillary, flags, address = s.recvmsg(4096, socket.CMSG_SPACE(64))
    for word in data.decode().splitlines():
        if not word.startswith("BARRIER"): print(word, flush=True)
`

t.test('systemd’s own program sends it', { skip: needs('systemd-notify', 'python3') }, async t => {
  const path = await socketPath(t, 'notify')
  const receiver = startProgram(t, ['python3', '-c', RECEIVE, path])
  await receiver.said(/bound\n/)
  const { child, exited } = startProgram(t, [...program, ...FREE], { env: { NOTIFY_SOCKET: path } })
  await receiver.said(/READY=1\n/)
  child.kill('SIGTERM')
  await receiver.said(/READY=1\n(.*\n)*STOPPING=1\n/)
  t.equal(await exited, 0)
})
