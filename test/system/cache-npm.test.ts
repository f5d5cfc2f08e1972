/**
 * npm with Sluice as the gateway to its registry, as in config/examples/packages.yaml: Sluice uses https:// to the
 * registry, and npm uses http:// to Sluice.
 */
import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needs, temporaryDirectory } from '../kit/processes/command.js'
import { makeCertificates } from './origin.js'
import { type Mirror, purge, startMirror, startPackageCache, succeed } from './package-cache.js'
import { needsBuild } from './program.js'

const skip = needs('npm', 'openssl') || needsBuild()

/** The name that the registry gives itself; no request is ever sent to that host. */
const REGISTRY = 'https://registry.example.org'
const TARBALL = '/greeting/-/greeting-1.0.0.tgz'

type Npm = (...args: string[]) => Promise<string>

/** A machine without downloads: it has an empty cache, and no configuration of the machine that runs the test. */
async function machine(t: Test, registry: string): Promise<{ readonly npm: Npm; readonly folder: string }> {
  const home = await temporaryDirectory(t)
  const folder = join(home, 'project')
  await mkdir(folder)
  await writeFile(join(folder, 'package.json'), '{ "name": "project", "version": "1.0.0" }\n')
  await writeFile(
    join(home, 'npmrc'),
    `registry=${registry}
replace-registry-host=always
audit=false
fund=false
update-notifier=false
fetch-retries=0
cache=${join(home, 'cache')}
`,
  )
  const env = {
    HOME: home,
    NPM_CONFIG_USERCONFIG: join(home, 'npmrc'),
    NPM_CONFIG_GLOBALCONFIG: join(home, 'none'),
  }
  return { npm: (...args) => succeed('npm', args, { env, cwd: folder }), folder }
}

async function pack(t: Test, version: string): Promise<Buffer> {
  const { npm, folder } = await machine(t, 'http://127.0.0.1:9/')
  await writeFile(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'greeting', version, main: 'index.js' }),
  )
  await writeFile(join(folder, 'index.js'), 'exports.hello = "world"\n'.repeat(1000))
  await npm('pack', '--offline')
  return readFile(join(folder, `greeting-${version}.tgz`))
}

/** The registry's metadata of a package, and its tarballs. */
function publish(files: Mirror, tarballs: Readonly<Record<string, Buffer>>): void {
  const versions = Object.entries(tarballs).map(([version, content]) => {
    const path = `/greeting/-/greeting-${version}.tgz`
    files.publish(path, content)
    const integrity = `sha512-${createHash('sha512').update(content).digest('base64')}`
    return [version, { name: 'greeting', version, dist: { tarball: REGISTRY + path, integrity } }] as const
  })
  const latest = versions.at(-1)?.[0]
  const metadata = { name: 'greeting', 'dist-tags': { latest }, versions: Object.fromEntries(versions) }
  files.publish('/greeting', JSON.stringify(metadata), 'application/json')
}

t.test('npm, with Sluice as a gateway', { skip }, async t => {
  const certificates = await makeCertificates(t)
  const registry = await startMirror(t, certificates)
  const { files } = registry
  const sluice = await startPackageCache(t, {
    origins: { 'npm-cache.example/': { forward: registry.url, ca: certificates.ca } },
  })
  const tarball = await pack(t, '1.0.0')
  publish(files, { '1.0.0': tarball })
  const client = (t: Test) => machine(t, `${sluice.proxyUrl}/`)

  await t.test('the first machine fetches from the registry, whatever host the metadata names', async t => {
    const { npm, folder } = await client(t)
    await npm('install', 'greeting')
    t.match(await readFile(join(folder, 'node_modules/greeting/index.js'), 'utf8'), /hello/)
    t.same(files.taken(), ['200 /greeting', `200 ${TARBALL}`])
  })

  await t.test(
    'the second machine gets everything from the cache, and a lock file that is valid without it',
    async t => {
      const { npm, folder } = await client(t)
      await npm('install', 'greeting')
      t.match(await readFile(join(folder, 'node_modules/greeting/index.js'), 'utf8'), /hello/)
      t.equal(await resolvedIn(folder), REGISTRY + TARBALL)
      const third = await client(t)
      for (const name of ['package.json', 'package-lock.json']) {
        await writeFile(join(third.folder, name), await readFile(join(folder, name)))
      }
      await third.npm('ci')
      t.equal(await resolvedIn(third.folder), REGISTRY + TARBALL)
      t.same(files.taken(), [])
    },
  )

  await t.test('npm install and npm pack get different metadata (Accept, RFC 9111 §4.1)', async t => {
    const { npm, folder } = await client(t)
    await npm('pack', 'greeting')
    t.ok((await readFile(join(folder, 'greeting-1.0.0.tgz'))).equals(tarball))
    t.same(files.taken(), ['200 /greeting'])
  })

  await t.test('a new version is seen once the metadata is purged or stale', async t => {
    publish(files, { '1.0.0': tarball, '1.1.0': await pack(t, '1.1.0') })
    const before = await client(t)
    await before.npm('install', '--prefer-online', 'greeting')
    t.equal(await resolvedIn(before.folder), REGISTRY + TARBALL)
    t.same(files.taken(), [])
    // One for npm install, and one for npm pack.
    t.equal(await purge(sluice, `${sluice.proxyUrl}/greeting`), '2 responses were purged')
    const after = await client(t)
    await after.npm('install', 'greeting')
    t.equal(await resolvedIn(after.folder), `${REGISTRY}/greeting/-/greeting-1.1.0.tgz`)
    t.same(files.taken(), ['200 /greeting', '200 /greeting/-/greeting-1.1.0.tgz'])
  })
})

async function resolvedIn(folder: string): Promise<string | undefined> {
  const lock = JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { resolved?: string }>
  }
  return lock.packages['node_modules/greeting']?.resolved
}
