/**
 * The package as users install it: packed, installed globally and in a folder, and a clone with production dependencies
 * only. npm uses a registry of the test on loopback, which has the packages of this clone.
 */
import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { type Mirror, startMirror, succeed } from './package-cache.js'
import { needsBuild, ROOT } from './program.js'

const skip = needs('npm', 'tar') || needsBuild()

interface Locked {
  readonly version: string
  readonly dev?: boolean
  readonly resolved?: string
  readonly integrity?: string
}

interface Lock {
  readonly packages: Record<string, Locked>
}

const lock = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')) as Lock

/** Every package of this clone that is needed at run time, in all of its versions. */
async function publish(t: Test, files: Mirror, registry: string): Promise<void> {
  const folder = await temporaryDirectory(t)
  const published = new Map<string, { latest: string; readonly versions: Record<string, unknown> }>()
  for (const [path, { dev }] of Object.entries(lock.packages)) {
    if (path === '' || dev === true) continue
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    const manifest = JSON.parse(await readFile(join(ROOT, path, 'package.json'), 'utf8')) as {
      version: string
    }
    const { version } = manifest
    const tarball = `/${name}/-/it-${version}.tgz`
    const file = join(folder, 'it.tgz')
    const renamed = ['--transform', 's,^\\.,package,', '--exclude', './node_modules']
    await succeed('tar', [
      ...['--create', '--gzip', '--file', file, ...renamed],
      ...['--directory', join(ROOT, path), '.'],
    ])
    const content = await readFile(file)
    files.publish(tarball, content)
    const integrity = `sha512-${createHash('sha512').update(content).digest('base64')}`
    const of = published.get(name) ?? { latest: version, versions: {} }
    published.set(name, of)
    of.versions[version] = { ...manifest, dist: { tarball: `${registry}${tarball}`, integrity } }
    if (path === `node_modules/${name}`) of.latest = version
  }
  for (const [name, { latest, versions }] of published) {
    const document = JSON.stringify({ name, 'dist-tags': { latest }, versions })
    files.publish(`/${name.replace('/', '%2f')}`, document, 'application/json')
  }
}

t.test('the package', { skip, timeout: 180_000 }, async t => {
  const { files, url } = await startMirror(t)
  await publish(t, files, url)
  const home = await temporaryDirectory(t)
  await writeFile(
    join(home, 'npmrc'),
    `registry=${url}\naudit=false\nfund=false\nupdate-notifier=false\nfetch-retries=0\ncache=${join(home, 'cache')}\n`,
  )
  const env = {
    HOME: home,
    NPM_CONFIG_USERCONFIG: join(home, 'npmrc'),
    NPM_CONFIG_GLOBALCONFIG: join(home, 'none'),
  }
  const in_ = (cwd: string) => ({ env, cwd, timeoutMs: 60_000 })

  /** A built clone without its packages. */
  const clone = join(home, 'clone')
  await mkdir(clone)
  for (const name of ['package.json', 'README.md', 'LICENSE', 'dist', 'config']) {
    await cp(join(ROOT, name), join(clone, name), { recursive: true })
  }
  const packages = Object.entries(lock.packages).map(
    ([path, { resolved: _, integrity: __, ...locked }]) => [path, locked] as const,
  )
  await writeFile(
    join(clone, 'package-lock.json'),
    JSON.stringify({ ...lock, packages: Object.fromEntries(packages) }),
  )
  const packed = await succeed(
    'npm',
    ['pack', '--ignore-scripts', '--silent', '--pack-destination', home],
    in_(clone),
  )
  const tarball = join(home, packed.trim())
  const { version } = JSON.parse(await readFile(join(clone, 'package.json'), 'utf8'))

  await t.test('npm i -g of the tarball installs the command sluice, which its hints name', async t => {
    const prefix = join(home, 'global')
    await succeed('npm', ['install', '--global', '--prefix', prefix, tarball], in_(home))
    const bin = join(prefix, 'bin')
    const path = { ...env, PATH: `${bin}:${process.env['PATH']}` }
    const sluice = (...args: string[]) => run('sluice', args, { env: path, cwd: home })
    t.match(await sluice('--version'), { code: 0, stdout: `${version}\n` })
    t.match(await sluice('--nope'), { code: 64, stderr: /^Try sluice --help\.$/m })
    t.match(await sluice('explain', 'https://169.254.169.254/'), { code: 1, stdout: /^deny: 403 /m })
    const elsewhere = await run(join(bin, 'sluice'), ['--nope'], { cwd: home })
    t.match(elsewhere.stderr, /^Try global\/bin\/sluice --help\.$/m)
  })

  await t.test('npx runs what is installed in a folder', async t => {
    const folder = join(home, 'project')
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), '{ "name": "project", "version": "1.0.0" }\n')
    await succeed('npm', ['install', tarball], in_(folder))
    const npx = (...args: string[]) => run('npx', ['--offline', 'sluice', ...args], in_(folder))
    t.match(await npx('--version'), { code: 0, stdout: `${version}\n` })
    t.match(await npx('--nope'), { code: 64, stderr: /^Try npx sluice --help\.$/m })
    const linked = await run(join(folder, 'node_modules/.bin/sluice'), ['--nope'], in_(folder))
    t.match(linked.stderr, /^Try npx sluice --help\.$/m)
    const shipped = await readdir(join(folder, 'node_modules/sluice'))
    t.same(shipped.sort(), ['LICENSE', 'README.md', 'config', 'dist', 'package.json'])
  })

  await t.test('npm ci --omit=dev after a build leaves what is needed, and npx sluice runs it', async t => {
    await succeed('npm', ['ci', '--omit=dev'], in_(clone))
    const modules = await readdir(join(clone, 'node_modules'))
    t.ok(modules.includes('yaml'))
    t.notOk(modules.includes('typescript'))
    const start = (...args: string[]) => run('npm', ['start', '--silent', ...args], in_(clone))
    t.match(await start('--', '--version'), { code: 0, stdout: `${version}\n` })
    t.match(await start('--', '--nope'), { code: 64, stderr: /^Try npm start -- --help\.$/m })
    for (const args of [['--config', 'my.yaml'], ['--config=my.yaml'], ['-c', 'my.yaml']]) {
      const { code, stderr } = await start(...args)
      t.equal(code, 64, args.join(' '))
      t.match(stderr, ': npm start -- --config my.yaml\n', args.join(' '))
    }
    t.match(await run(process.execPath, ['dist/bin.js', '--nope'], in_(clone)), {
      code: 64,
      stderr: /^Try node dist\/bin\.js --help\.$/m,
    })
    t.match(await run('npx', ['--offline', 'sluice', '--version'], in_(clone)), {
      code: 0,
      stdout: `${version}\n`,
    })
  })

  await t.test('npm ci --omit=dev without a build reports what is missing', async t => {
    const bare = join(home, 'bare')
    await mkdir(bare)
    for (const name of ['package.json', 'package-lock.json']) await cp(join(clone, name), join(bare, name))
    const { code, stderr } = await run('npm', ['ci', '--omit=dev', '--foreground-scripts'], in_(bare))
    t.not(code, 0)
    t.match(stderr, 'nothing is built here, and what builds it is a development package')
  })
})
