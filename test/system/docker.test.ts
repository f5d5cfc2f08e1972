/** The image: built by the engine's own builder, and run as the README says. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { makeBaseImage, needsDocker, startDocker } from './docker-engine.js'
import { makeCertificates, startOrigin } from './origin.js'
import { ROOT } from './program.js'

const PROXY = 'http://127.0.0.1:3128'
const HARDENED = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges']

t.test('the image', { skip: needsDocker() || needs('curl', 'openssl') }, async t => {
  const docker = await startDocker(t)
  const dockerfile = await readFile(join(ROOT, 'docker/Dockerfile'), 'utf8')
  const base = /^ARG NODE_IMAGE=(\S+)$/m.exec(dockerfile)?.[1]
  if (base === undefined) throw new Error('the Dockerfile names no base image')
  await makeBaseImage(t, docker, base, process.env['SLUICE_TEST_NODE'] ?? process.execPath)
  const build = [
    'build',
    '--network',
    'host',
    '--tag',
    'sluice',
    '--file',
    join(ROOT, 'docker/Dockerfile'),
    ROOT,
  ]
  await docker.read(...build)

  const certificates = await makeCertificates(t)
  const plain = await startOrigin(t)
  const secure = await startOrigin(t, certificates)
  const directory = await temporaryDirectory(t)
  const config = join(directory, 'sluice.yaml')
  await writeFile(
    config,
    `version: 1
rules:
  local: { hosts: ["127.0.0.1"], ports: [${plain.port}, ${secure.port}], addresses: ["127.0.0.1"] }
`,
  )
  const mounted = (file: string) => ['--volume', `${file}:/etc/sluice/sluice.yaml:ro`]
  /** Starts a container as a service, with host networking, so that only loopback is used in both directions. */
  const start = async (name: string, ...options: string[]) => {
    await docker.read(
      ...['run', '--detach', '--name', name, '--network', 'host', '--health-interval', '1s', ...HARDENED],
      ...[...options, 'sluice'],
    )
    await docker.firstLine(/"listening"/, 'logs', '--follow', name)
  }
  const curl = (...args: string[]) =>
    run('curl', [
      '--silent',
      '--proxy',
      PROXY,
      '--cacert',
      certificates.ca,
      '--write-out',
      '%{http_code}',
      ...args,
    ])
  const healthy = (name: string) =>
    docker.firstLine(/health_status: healthy/, 'events', '--since', '0', '--filter', `container=${name}`)
  const stop = async (name: string) => {
    await docker.read('stop', '--time', '20', name)
    return docker.read('inspect', '--format', '{{.State.ExitCode}}', name)
  }

  await t.test('runs without privileges and contains nothing that only the build needs', async t => {
    t.equal(await docker.read('inspect', '--format', '{{.Config.User}}', 'sluice'), '10001:10001')
    const environment = await docker.read('inspect', '--format', '{{json .Config.Env}}', 'sluice')
    t.ok((JSON.parse(environment) as string[]).includes('UV_THREADPOOL_SIZE=64'))
    const list = ['run', '--rm', '--network', 'none', '--entrypoint', 'ls', 'sluice', '-A']
    t.same((await docker.read(...list, '/app')).split('\n').sort(), [
      'LICENSE',
      'config',
      'dist',
      'node_modules',
      'package-lock.json',
      'package.json',
    ])
    const modules = (await docker.read(...list, '/app/node_modules')).split('\n')
    t.ok(modules.includes('undici'))
    t.notOk(modules.includes('typescript'))
    t.notOk(
      (
        await docker.read(...['run', '--rm', '--network', 'none', '--user', '0', ...list.slice(4), '/root'])
      ).includes('.npm'),
    )
  })

  await t.test(
    'without a configuration: is healthy, refuses loopback targets, and exits with 0 on SIGTERM',
    async t => {
      await start('defaults')
      const { stdout } = await curl(`${plain.url}/`)
      t.match(stdout, /403$/)
      t.ok(await healthy('defaults'))
      t.equal(await docker.read('exec', 'defaults', 'sluice', 'health'), 'healthy: 127.0.0.1:9128')
      t.equal(await stop('defaults'), '0')
    },
  )

  await t.test(
    'with a mounted configuration: allowed hosts can be reached, by http:// and by CONNECT',
    async t => {
      await start('configured', ...mounted(config))
      for (const origin of [plain, secure]) {
        const { code, stdout } = await curl(`${origin.url}/a`)
        t.equal(code, 0)
        t.match(stdout, /"url":"\/a".*200$/)
      }
      t.ok(await healthy('configured'))
      t.equal(await stop('configured'), '0')
    },
  )

  await t.test(
    'the health check uses the address of --admin, and hints are commands of the image',
    async t => {
      await docker.read(
        ...[
          'run',
          '--detach',
          '--name',
          'moved',
          '--network',
          'host',
          '--health-interval',
          '1s',
          ...HARDENED,
        ],
        ...['sluice', 'run', '--listen', '127.0.0.1:3128', '--admin', '127.0.0.1:9129'],
      )
      await docker.firstLine(/"listening"/, 'logs', '--follow', 'moved')
      t.ok(await healthy('moved'))
      const health = ['exec', 'moved', 'sluice', 'health']
      t.match(await docker(...health), { code: 1, stderr: 'nobody listens on 127.0.0.1:9128' })
      t.equal(await docker.read(...health, '--pid', '1'), 'healthy: 127.0.0.1:9129')
      t.match((await docker('exec', 'moved', 'sluice', 'nope')).stderr, /^Try sluice --help\.$/m)
      t.equal(await stop('moved'), '0')
    },
  )

  await t.test('other commands of the program run by their names', async t => {
    const bad = join(directory, 'bad.yaml')
    await writeFile(bad, 'version: 1\nrules: { web: {} }\n')
    const check = (file: string) =>
      docker(
        'run',
        '--rm',
        '--network',
        'none',
        ...HARDENED,
        ...mounted(file),
        'sluice',
        'check',
        '/etc/sluice/sluice.yaml',
      )
    t.match(await check(config), { code: 0, stdout: '/etc/sluice/sluice.yaml: ok' })
    t.match(await check(bad), { code: 78, stderr: '/etc/sluice/sluice.yaml:2:' })
  })

  await t.test('exec --isolate isolates a program if the container may create namespaces', async t => {
    const script = `
      const { connect } = require('node:net')
      const { get } = require('node:http')
      const { hostname: host, port } = new URL(process.env.http_proxy)
      const direct = connect(${plain.port}, '127.0.0.1', () => console.log('past the proxy'))
      direct.on('error', error => {
        console.log('direct', error.code)
        get({ host, port, path: '${plain.url}/isolated', agent: false }, ({ statusCode }) => console.log('proxied', statusCode))
      })`
    const isolate = (...options: string[]) =>
      docker(
        ...['run', '--rm', '--network', 'host', ...HARDENED, ...options, ...mounted(config), 'sluice'],
        ...['exec', '--isolate', '--config', '/etc/sluice/sluice.yaml', '--'],
        ...['node', '-e', script],
      )
    t.match(await isolate('--security-opt', 'seccomp=unconfined'), {
      code: 0,
      stdout: 'direct ECONNREFUSED\nproxied 200\n',
      stderr: '',
    })
    t.match(await isolate(), {
      code: 69,
      stdout: '',
      stderr:
        /unshare failed: Operation not permitted\n {2}a seccomp filter.*--security-opt seccomp=unconfined/,
    })
  })
})

t.test('the Compose file leaves the application no way out but the proxy', async t => {
  const { services, networks } = parse(await readFile(join(ROOT, 'docker/compose.yaml'), 'utf8'))
  const { app, sluice } = services
  t.same(app.networks, ['inside'])
  t.same(networks.inside, { internal: true })
  t.same(sluice.networks, ['inside', 'outside'])
  t.notOk(sluice.ports ?? app.ports)
  t.same(app.depends_on, { sluice: { condition: 'service_healthy' } })
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']) {
    t.equal(app.environment[name], 'http://sluice:3128')
  }
  t.same(sluice.volumes, ['./sluice.yaml:/etc/sluice/sluice.yaml:ro'])
  for (const service of [app, sluice]) {
    t.match(service, { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] })
  }
})
