/** What `sluice exec --isolate` starts, and what it says where that is refused; test/system runs it. */
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { connectableSockets, explainFailure, isolated, unsupported } from '../../src/cli/isolation.js'
import { temporaryDirectory } from '../kit/processes/command.js'

t.test('the program and its arguments follow the isolating commands unchanged', t => {
  const [program, ...args] = isolated('/bin/node', ['/run/a', '/run/b c'], ['curl', '--', '-x', ''])
  t.equal(program, 'unshare')
  t.match(args, ['--user', '--map-current-user', '--keep-caps', '--net', '--mount'])
  t.strictSame(args.slice(args.indexOf('/run/a')), ['/run/a', '/run/b c', '--', 'curl', '--', '-x', ''])
  t.ok(args.includes('/bin/node'))
  t.end()
})

t.test('sockets are hidden that have a path, each once, if they can be connected to', async t => {
  const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 22041 /run/docker.sock
0000000000000000: 00000003 00000000 00000000 0001 03 22042 /run/docker.sock
0000000000000000: 00000002 00000000 00000000 0002 01     7 /dev/log
0000000000000000: 00000002 00000000 00010000 0001 01 22043 @/tmp/abstract
0000000000000000: 00000003 00000000 00000000 0001 03 22044
0000000000000000: 00000002 00000000 00010000 0001 01 22045 /run/with a  blank/s
0000000000000000: 00000002 00000000 00010000 0005 01 22046 /run/not/for/us
`
  t.strictSame(
    connectableSockets(table, path => path !== '/run/not/for/us'),
    ['/run/docker.sock', '/dev/log', '/run/with a  blank/s'],
  )
  t.strictSame(connectableSockets(''), [])

  const path = join(await temporaryDirectory(t), 'socket')
  const server = createServer()
  await new Promise<void>(resolve => server.listen(path, resolve))
  t.teardown(() => server.close())
  const line = (path: string) => `0000000000000000: 00000002 00000000 00010000 0001 01 1 ${path}\n`
  t.strictSame(connectableSockets(line(path) + line(`${path}-gone`) + line('/')), [path])
})

t.test('other systems have no namespaces', t => {
  t.equal(unsupported('linux'), undefined)
  t.match(unsupported('darwin'), 'this system is darwin')
  t.end()
})

t.test('a refusal of the system is reported with what would allow it', t => {
  const explain = (said: string, files: Record<string, string>) =>
    explainFailure(said, path => files[path] ?? '')
  const said = 'unshare: unshare failed: Operation not permitted\n'
  const told = '--isolate: the program was not run, as it cannot be isolated: '
  t.equal(explain(said, {}), `${told}unshare: unshare failed: Operation not permitted`)
  for (const [path, text, remedy] of [
    ['/proc/sys/kernel/unprivileged_userns_clone', '0\n', /kernel\.unprivileged_userns_clone=1$/],
    ['/proc/sys/user/max_user_namespaces', '0\n', /user\.max_user_namespaces=/],
    ['/proc/sys/kernel/apparmor_restrict_unprivileged_userns', '1\n', /"userns,".*=0$/],
    ['/proc/self/status', 'Name:\tnode\nSeccomp:\t2\n', /docker run --security-opt seccomp=unconfined/],
  ] as const) {
    t.match(explain(said, { [path]: text }), remedy)
    t.equal(explain('unshare: no such program', { [path]: text }), `${told}unshare: no such program`)
  }
  t.notMatch(
    explain(said, {
      '/proc/sys/kernel/unprivileged_userns_clone': '1\n',
      '/proc/sys/user/max_user_namespaces': '31000\n',
      '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '0\n',
      '/proc/self/status': 'Seccomp:\t0\nSeccomp_filters:\t2\n',
    }),
    '\n',
  )
  t.end()
})
