/**
 * `sluice exec --isolate` with real programs that have no proxy support, in a separate network namespace, started by root
 * and by another user.
 */
import { once } from 'node:events'
import { chmod, lstat, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { startDnsServer } from '../kit/peers/dns-server.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { installCopy, startProgram } from '../kit/processes/program.js'

const NOBODY = 65534
/** The users who start sluice, and how they are switched to. */
const USERS: readonly (readonly [string, readonly string[]])[] = [
  ['root', []],
  [
    'an unprivileged user',
    ['setpriv', '--reuid', `${NOBODY}`, '--regid', `${NOBODY}`, '--clear-groups', '--inh-caps=-all', '--'],
  ],
]

const program = await installCopy(t)
await chmod(dirname(dirname(program[1] ?? '')), 0o755)

/** A folder that other users can read. */
async function publicDirectory(t: Test): Promise<string> {
  const directory = await temporaryDirectory(t)
  await chmod(directory, 0o755)
  return directory
}

const skip = await missing()

async function missing(): Promise<string | false> {
  const programs = needs('unshare', 'setpriv', 'bash', 'perl')
  if (programs !== false || process.env['CI'] === 'true') return programs
  if (process.getuid?.() !== 0) return 'needs root, to start it as somebody else, too'
  for (const [user, as] of USERS) {
    const tried = await run('env', [...as, 'unshare', '--user', '--map-current-user', '--net', 'true'])
    if (tried.code !== 0) return `${user} may not make namespaces: ${tried.stderr}`
    const started = await run('env', [...as, ...program, '--version'])
    if (started.code !== 0) return `${user} cannot read the program: ${started.stderr}`
  }
  return false
}

/**
 * Tries every way out that its first argument names, and prints the result of each. perl does what Node cannot do.
 */
const PROBE = `
const net = require('node:net'), dgram = require('node:dgram'), dns = require('node:dns')
const { spawnSync } = require('node:child_process')
const ways = JSON.parse(process.argv[1])
const connect = options => new Promise(resolve => {
  const socket = net.connect(options, () => { resolve('connected'); socket.destroy() })
  socket.on('error', error => resolve(error.code))
})
const datagram = ({ host, port }) => new Promise(resolve => {
  const socket = dgram.createSocket(net.isIPv6(host) ? 'udp6' : 'udp4')
  const done = word => { resolve(word); socket.close() }
  socket.on('error', error => done(error.code))
  socket.on('message', () => done('answered'))
  // It is connected, so that refusals are reported to it.
  socket.connect(port, host, error => {
    if (error) return done(error.code)
    socket.send(Buffer.from('123401000001000000000000076578616d706c6504746573740000010001', 'hex'))
  })
})
const lookup = name => new Promise(resolve => dns.lookup(name, error => resolve(error ? 'not found' : 'found')))
const proxied = url => new Promise((resolve, reject) => {
  const { hostname, port } = new URL(process.env.http_proxy)
  const socket = net.connect(port, hostname, () => socket.write('GET ' + url + ' HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'))
  let text = ''
  socket.setEncoding('latin1').on('data', chunk => { text += chunk }).on('error', reject).on('end', () => resolve(text.slice(9, 12)))
})
const perl = script => {
  const { status, stderr } = spawnSync('perl', ['-e', script + ' or die $!{EPERM} ? "EPERM" : $!{EINVAL} ? "EINVAL" : $!'], { encoding: 'utf8' })
  return status === 0 ? 'done' : stderr.split(' at ')[0]
}
const shell = script => spawnSync('sh', ['-c', script], { env: { ...process.env, PARENT: process.ppid } }).status === 0 ? 'done' : 'refused'
const kinds = { connect, datagram, lookup, proxied, perl, shell }
const all = async () => {
  const results = {}
  for (const [name, [kind, argument]] of Object.entries(ways)) results[name] = await kinds[kind](argument)
  console.log(JSON.stringify(results))
}
all()
`

type Kind = 'connect' | 'datagram' | 'lookup' | 'proxied' | 'perl' | 'shell'
type Ways = Readonly<Record<string, readonly [Kind, unknown]>>

async function start(t: Test, as: readonly string[], args: readonly string[]) {
  return startProgram(t, [...as, ...program, 'exec', ...args], { cwd: await publicDirectory(t) })
}

async function probe(t: Test, as: readonly string[], options: readonly string[], ways: Ways) {
  const started = await start(t, as, [...options, '--', process.execPath, '-e', PROBE, JSON.stringify(ways)])
  const code = await started.exited
  const { stdout, stderr } = started
  t.equal(code, 0, stderr)
  return { results: JSON.parse(stdout) as Record<string, string>, stderr }
}

/** `struct ifreq` of netdevice(7): `lo` with these flags, by SIOCSIFFLAGS. */
const setFlags = (flags: number) => `socket(S,2,2,0) && ioctl(S,0x8914,my $r=pack("a16 s x22","lo",${flags}))`

for (const [user, as] of USERS) {
  t.test(`started by ${user}`, { skip }, async t => {
    t.test(
      'the proxy is the only way out: no address, no DNS, no raw socket, no socket of a service',
      async t => {
        const origin = await scriptedOrigin(t, () => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
        const host = createServer(socket => socket.end())
        host.listen(0, '127.0.0.1')
        await once(host, 'listening')
        t.teardown(() => host.close())
        const address = host.address()
        if (address === null || typeof address === 'string') throw new Error('no address')
        const { port } = address
        const dns = await startDnsServer()
        t.teardown(() => dns.close())
        const [, dnsPort] = dns.address.split(':')
        const directory = await publicDirectory(t)
        const path = join(directory, 'service.sock')
        const service = createServer(socket => socket.end())
        service.listen(path)
        await once(service, 'listening')
        t.teardown(() => service.close())
        await chmod(path, 0o777)
        const abstract = createServer(socket => socket.end())
        abstract.listen(`\0sluice-test-${process.pid}`)
        await once(abstract, 'listening')
        t.teardown(() => abstract.close())
        const config = join(directory, 'sluice.yaml')
        const log = join(await temporaryDirectory(t), 'log')
        await chmod(dirname(log), 0o777)
        await writeFile(
          config,
          `version: 1\nrules: { local: { hosts: ["127.0.0.1"], ports: [${origin.port}], addresses: ["127.0.0.1"] } }\n`,
        )
        const reachable: Ways = {
          loopback: ['connect', { host: '127.0.0.1', port }],
          dns: ['datagram', { host: '127.0.0.1', port: Number(dnsPort) }],
          service: ['connect', { path }],
          abstract: ['connect', { path: `\0sluice-test-${process.pid}` }],
          proxied: ['proxied', `http://127.0.0.1:${origin.port}/`],
        }
        const before = await probe(t, as, ['--config', config], reachable)
        t.strictSame(before.results, {
          loopback: 'connected',
          dns: 'answered',
          service: 'connected',
          abstract: 'connected',
          proxied: '200',
        })
        const queries = dns.queries.length
        const own = Object.values(networkInterfaces())
          .flatMap(addresses => addresses ?? [])
          .find(({ family, internal }) => family === 'IPv4' && !internal)?.address
        const { results, stderr } = await probe(t, as, ['--config', config, '--log', log, '--isolate'], {
          ...reachable,
          'address of the host': ['connect', { host: own ?? '192.0.2.2', port }],
          'address outside': ['connect', { host: '192.0.2.1', port: 443 }],
          'IPv6 address outside': ['connect', { host: '2001:db8::1', port: 443 }],
          'DNS outside': ['datagram', { host: '192.0.2.1', port: 53 }],
          'DNS by the system': ['lookup', 'example.test'],
          'raw socket': ['perl', 'socket(S,2,3,1)'],
          'packet socket': ['perl', 'socket(S,17,3,0)'],
          'interface down': ['perl', setFlags(0)],
          'further interface': ['shell', 'ip link add dummy0 type dummy || ip link add type veth'],
          'the hidden socket': ['shell', `umount ${path}`],
          'the host’s namespace': ['shell', 'nsenter --net=/proc/1/ns/net true'],
          'the namespace of sluice': ['shell', 'nsenter --net=/proc/$PARENT/ns/net true'],
          'the variables of sluice': ['shell', 'cat /proc/$PARENT/environ'],
          'namespaces of its own': [
            'shell',
            `unshare --user --map-root-user --net --mount sh -c 'umount ${path} || nc -z 127.0.0.1 3128'`,
          ],
          denied: ['proxied', 'http://denied.test/'],
        })
        t.strictSame(results, {
          loopback: 'ECONNREFUSED',
          dns: 'ECONNREFUSED',
          service: 'ECONNREFUSED',
          abstract: 'ECONNREFUSED',
          proxied: '200',
          'address of the host': 'ENETUNREACH',
          'address outside': 'ENETUNREACH',
          'IPv6 address outside': 'ENETUNREACH',
          'DNS outside': 'ENETUNREACH',
          'DNS by the system': 'not found',
          'raw socket': 'EPERM',
          'packet socket': 'EPERM',
          'interface down': 'EPERM',
          'further interface': 'refused',
          'the hidden socket': 'refused',
          'the host’s namespace': 'refused',
          'the namespace of sluice': 'refused',
          'the variables of sluice': 'refused',
          'namespaces of its own': 'refused',
          denied: '403',
        })
        t.equal(dns.queries.length, queries, 'no query came out')
        t.ok((await lstat(path)).isSocket(), 'it is hidden inside alone')
        t.match(stderr, /^sluice: 1 request denied:\n {2}denied\.test:80 {2}GET: no rule names the host\n/)
        const events = (await readFile(log, 'utf8'))
          .trimEnd()
          .split('\n')
          .map(line => JSON.parse(line))
        t.match(
          events.filter(({ event }) => event === 'decision'),
          [
            { client: 'exec', client_address: '127.0.0.1', host: '127.0.0.1', decision: 'allow' },
            { client: 'exec', client_address: '127.0.0.1', host: 'denied.test', decision: 'deny' },
          ],
        )
      },
    )

    t.test(
      'it is a child of sluice with the same streams, variables and user, and no capabilities',
      async t => {
        const script = `
        const { readdirSync, readFileSync } = require('node:fs')
        process.stdin.on('data', data => process.stdout.write(data)).on('end', () => {
          const status = readFileSync('/proc/self/status', 'utf8')
          console.log(JSON.stringify({
            parent: process.ppid,
            user: process.getuid(),
            arguments: process.argv.slice(1),
            odd: process.env['A-B'],
            left: Object.keys(process.env).filter(name => name.startsWith('NODE_CHANNEL')),
            capabilities: [...status.matchAll(/^Cap...:\\t(.*)$/gm)].map(([, bits]) => bits),
            channel: process.send === undefined,
          }))
          console.error('said')
          process.exitCode = 7
        })`
        const args = ['--isolate', '--', process.execPath, '-e', script, '--', '--x', 'a b', '']
        const started = await start(t, ['env', 'A-B=c d', ...as], args)
        started.child.stdin.end('input\n')
        t.equal(await started.exited, 7)
        const [first, second = ''] = started.stdout.split('\n')
        t.equal(first, 'input')
        t.strictSame(JSON.parse(second), {
          parent: started.child.pid,
          user: as.length === 0 ? 0 : NOBODY,
          arguments: ['--x', 'a b', ''],
          odd: 'c d',
          left: [],
          capabilities: Array.from({ length: 5 }, () => '0000000000000000'),
          channel: true,
        })
        t.equal(started.stderr, 'said\n')
        const descriptors = '[ ! -e /proc/self/fd/3 ] && [ ! -e /proc/self/fd/4 ]'
        const shell = await start(t, as, ['--isolate', '--', 'sh', '-c', descriptors])
        t.equal(await shell.exited, 0, 'the channel is closed')
      },
    )

    t.test('signals are passed on to it, and end it', async t => {
      const script =
        "process.on('SIGTERM', () => { console.log('term'); process.kill(process.pid, 'SIGKILL') }); setInterval(() => {}, 1000); console.log('ready')"
      const started = await start(t, as, ['--isolate', '--', process.execPath, '-e', script])
      await started.said(/ready/)
      started.child.kill('SIGTERM')
      t.equal(await started.exited, 137)
      t.match(started.stdout, /term/)
    })

    t.test(
      'when sluice is killed, its connections are closed, and it can reach nothing any more',
      async t => {
        const origin = await rawOrigin(t)
        const directory = await publicDirectory(t)
        const config = join(directory, 'sluice.yaml')
        await writeFile(
          config,
          `version: 1\nrules: { local: { hosts: ["127.0.0.1"], ports: [${origin.port}], addresses: ["127.0.0.1"] } }\n`,
        )
        const script = `
        const { connect } = require('node:net')
        const { hostname, port } = new URL(process.env.HTTPS_PROXY)
        const socket = connect(port, hostname, () => socket.write('CONNECT ${origin.authority} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'))
        socket.once('data', () => console.log('ready'))
        socket.on('error', () => {}).on('close', () => {
          connect(port, hostname).on('error', error => console.log('then ' + error.code))
        })`
        const started = await start(t, as, [
          '--config',
          config,
          '--isolate',
          '--',
          process.execPath,
          '-e',
          script,
        ])
        const peer = await origin.accept()
        await started.said(/ready/)
        started.child.kill('SIGKILL')
        await started.said(/then ECONNREFUSED/)
        await peer.untilEnd()
      },
    )

    t.test('a socket that cannot be hidden is reported, and the program runs', async t => {
      const directory = await publicDirectory(t)
      const path = join(directory, 'service.sock')
      const service = createServer(socket => socket.end())
      service.listen(path)
      await once(service, 'listening')
      t.teardown(() => service.close())
      await chmod(path, 0o777)
      // Without `ip`, perl brings loopback up.
      for (const name of ['mount', 'ip']) {
        const fake = join(directory, name)
        await writeFile(fake, '#!/bin/sh\nexit 1\n')
        await chmod(fake, 0o755)
      }
      const started = await start(
        t,
        [...as, 'env', `PATH=${directory}:${process.env['PATH']}`],
        [...['--isolate', '--', process.execPath, '-e', 'console.log("run")']],
      )
      t.equal(await started.exited, 0)
      t.equal(started.stdout, 'run\n')
      t.match(started.stderr, /^sluice: --isolate: sockets that cannot be hidden from the program: \//)
      t.match(started.stderr, path)
    })

    t.test('a missing program is 127, one that cannot be run is 126', async t => {
      for (const [file, code] of [
        ['/no/such/program', 127],
        ['/', 126],
      ] as const) {
        const started = await start(t, as, ['--isolate', '--', file])
        t.equal(await started.exited, code)
        t.match(started.stderr, file)
      }
    })

    t.test('without unshare, or if it is refused, the program is not run', async t => {
      const directory = await publicDirectory(t)
      const without = async (path: string) => {
        const started = await start(
          t,
          ['env', ...as, 'env', `PATH=${path}`],
          ['--isolate', '--', process.execPath, '-e', 'console.log("run")'],
        )
        return { code: await started.exited, stdout: started.stdout, stderr: started.stderr }
      }
      t.match(await without('/no/such'), {
        code: 69,
        stdout: '',
        stderr: /^sluice: --isolate: .*: unshare: no such program \(util-linux\)\n$/,
      })
      const fake = join(directory, 'unshare')
      await writeFile(
        fake,
        '#!/bin/sh\necho "unshare: unshare failed: Operation not permitted" >&2\nexit 1\n',
      )
      await chmod(fake, 0o755)
      t.match(await without(`${directory}:/usr/bin:/bin`), {
        code: 69,
        stdout: '',
        stderr: /^sluice: --isolate: .*: unshare: unshare failed: Operation not permitted\n/,
      })
      t.strictSame((await readdir(directory)).sort(), ['unshare'])
    })
  })
}

t.test('it has the terminal, and gets Ctrl-C once', { skip: skip || needs('script') }, async t => {
  const script =
    "process.on('SIGINT', () => { console.log('int'); process.exit(4) }); setInterval(() => {}, 1000); console.log([0, 1, 2].map(require('node:tty').isatty).join())"
  const words = [...program, 'exec', '--isolate', '--', process.execPath, '-e', script]
  const command = words.map(word => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
  const { said, child, exited } = startProgram(t, ['script', '-qefc', `exec ${command}`, '/dev/null'], {
    env: { SHELL: '/bin/sh', TERM: 'xterm' },
    cwd: await publicDirectory(t),
  })
  await said(/true,true,true/)
  child.stdin.write('\x03')
  await said(/int/)
  t.equal(await exited, 4)
})
