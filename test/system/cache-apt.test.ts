/** apt through the cache of the proxy, as in config/examples/packages.yaml: only one client downloads from the mirror. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needs, temporaryDirectory } from '../kit/processes/command.js'
import { until } from '../kit/until.js'
import { makeCertificates, sha256 } from './origin.js'
import { type Mirror, purge, startMirror, startPackageCache, stored, succeed } from './package-cache.js'
import { needsBuild, type Sluice } from './program.js'

const skip = needs('apt-get', 'dpkg-deb', 'openssl') || needsBuild()

const ROOT = '/debian'
const RELEASE = '/dists/stable/Release'
const PACKAGES = '/dists/stable/main/binary-all/Packages'

const MIB = 1024 * 1024

/**
 * The requests of `apt-get update` to a mirror. No signatures are needed for a trusted source; the 404 for them is not
 * stored, as it has no lifetime.
 */
function updates(root: string, status: 200 | 304): string[] {
  const indexes = [RELEASE, PACKAGES].map(path => `${status} ${root}${path}`)
  return [...indexes, `404 ${root}/dists/stable/InRelease`, `404 ${root}/dists/stable/Release.gpg`].sort()
}

interface Package {
  readonly name: string
  /** Below the root of the repository. */
  readonly path: string
  readonly content: Buffer
  /** The paragraph of a package in the file Packages. */
  readonly paragraph: string
}

async function buildPackage(t: Test, name: string, version: string, bytes: number): Promise<Package> {
  const folder = await temporaryDirectory(t)
  const tree = join(folder, 'tree')
  const control = `Package: ${name}
Version: ${version}
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: made by a test
`
  await mkdir(join(tree, 'DEBIAN'), { recursive: true })
  await writeFile(join(tree, 'DEBIAN/control'), control)
  await mkdir(join(tree, 'usr/share', name), { recursive: true })
  await writeFile(join(tree, 'usr/share', name, 'content'), Buffer.alloc(bytes, `${name} ${version}\n`))
  const file = join(folder, 'made.deb')
  // Not compressed, so that it is as large as its content.
  await succeed('dpkg-deb', ['--root-owner-group', '-Znone', '--build', tree, file])
  const content = await readFile(file)
  const path = `pool/main/${name}_${version}_all.deb`
  const paragraph = `${control}Filename: ${path}\nSize: ${content.length}\nSHA256: ${sha256(content)}\n`
  return { name, path: `/${path}`, content, paragraph }
}

/** A repository at a path, with these packages, as of a certain day. */
function publish(files: Mirror, root: string, packages: readonly Package[], day: string): void {
  const modified = new Date(`${day}T00:00:00Z`)
  const index = packages.map(({ paragraph }) => paragraph).join('\n')
  const listed = `${sha256(Buffer.from(index))} ${index.length} main/binary-all/Packages`
  const release = `Suite: stable
Codename: stable
Date: ${modified.toUTCString().replace('GMT', 'UTC')}
Architectures: all
Components: main
SHA256:
 ${listed}
`
  for (const { path, content } of packages)
    files.publish(root + path, content, 'application/vnd.debian.binary-package')
  files.publish(root + PACKAGES, index, 'text/plain', modified)
  files.publish(root + RELEASE, release, 'text/plain', modified)
}

interface Client {
  apt(...args: string[]): Promise<string>
  /** The packages that it has downloaded, by file name. */
  downloaded(): Promise<Map<string, Buffer>>
}

/**
 * A machine with an empty cache of its own, whose apt reads and writes nothing of the machine that runs the test.
 * @param source the URL of a repository
 */
async function machine(t: Test, source: string, { proxyUrl }: Sluice, more = ''): Promise<Client> {
  const root = await temporaryDirectory(t)
  for (const folder of ['etc', 'state/lists/partial', 'cache/archives/partial', 'log', 'home']) {
    await mkdir(join(root, folder), { recursive: true })
  }
  await writeFile(join(root, 'etc/sources.list'), `deb [trusted=yes] ${source} stable main\n`)
  await writeFile(join(root, 'status'), '')
  const configuration = join(root, 'apt.conf')
  await writeFile(
    configuration,
    `Dir::Etc "${root}/etc";
Dir::Etc::Parts "${root}/etc/none";
Dir::Etc::Main "${root}/etc/none";
Dir::State "${root}/state";
Dir::State::status "${root}/status";
Dir::Cache "${root}/cache";
Dir::Log "${root}/log";
Debug::NoLocking "true";
APT::Sandbox::User "";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
Acquire::http::Proxy "${proxyUrl}";
${more}
Acquire::Languages "none";
Acquire::Retries "0";
`,
  )
  const options = { env: { APT_CONFIG: configuration, HOME: join(root, 'home') } }
  const archives = join(root, 'cache/archives')
  return {
    apt: (...args) => succeed('apt-get', ['--yes', ...args], options),
    downloaded: async () => {
      const names = (await readdir(archives)).filter(name => name.endsWith('.deb'))
      return new Map(
        await Promise.all(names.map(async name => [name, await readFile(join(archives, name))] as const)),
      )
    },
  }
}

t.test('apt, through the proxy', { skip }, async t => {
  const mirror = await startMirror(t)
  const { files } = mirror
  const sluice = await startPackageCache(t, { repositoryPort: mirror.port })
  const source = mirror.url + ROOT
  // The large package is larger than the default limit of stored responses.
  const small = await buildPackage(t, 'small', '1.0', 1000)
  const large = await buildPackage(t, 'large', '1.0', 20 * MIB)
  publish(files, ROOT, [small, large], '2020-01-01')
  const first = await machine(t, source, sluice)
  const second = await machine(t, source, sluice)

  await t.test('the first machine fetches everything from the mirror', async t => {
    await first.apt('update')
    t.same(files.taken(), updates(ROOT, 200))
    await first.apt('install', '--download-only', 'small', 'large')
    t.same(files.taken(), [`200 ${ROOT}${large.path}`, `200 ${ROOT}${small.path}`])
    t.ok((await first.downloaded()).get('large_1.0_all.deb')?.equals(large.content))
  })

  await t.test('the second one has indexes validated and packages from the cache', async t => {
    await second.apt('update')
    t.same(files.taken(), updates(ROOT, 304))
    await second.apt('install', '--download-only', 'small', 'large')
    t.same(files.taken(), [])
    t.same(await second.downloaded(), await first.downloaded())
  })

  await t.test('a new release is seen at once by all machines', async t => {
    const newer = await buildPackage(t, 'small', '1.1', 1000)
    publish(files, ROOT, [newer, large], '2020-02-01')
    await first.apt('update')
    t.same(files.taken(), updates(ROOT, 200))
    await first.apt('install', '--download-only', 'small')
    t.same(files.taken(), [`200 ${ROOT}${newer.path}`])
    await second.apt('update')
    await second.apt('install', '--download-only', 'small')
    t.same(files.taken(), updates(ROOT, 304))
    for (const { downloaded } of [first, second]) {
      t.ok((await downloaded()).get('small_1.1_all.deb')?.equals(newer.content))
    }
  })

  await t.test('a package that the mirror removes is served until it is purged', async t => {
    const path = `${ROOT}/pool/main/small_1.1_all.deb`
    files.remove(path)
    const third = await machine(t, source, sluice)
    await third.apt('update')
    await third.apt('install', '--download-only', 'small')
    t.same(files.taken(), updates(ROOT, 304))
    t.equal(await purge(sluice, mirror.url + path), '1 response was purged')
    const fourth = await machine(t, source, sluice)
    await fourth.apt('update')
    await t.rejects(fourth.apt('install', '--download-only', 'small'), /404 +Not Found/)
    t.same(files.taken(), [...updates(ROOT, 304), `404 ${path}`].sort())
  })
})

t.test('apt, with the cache on disk, which survives the process', { skip }, async t => {
  const { files, url, port } = await startMirror(t)
  const small = await buildPackage(t, 'small', '1.0', 1000)
  // All of it may wait for the disk: responses that arrive faster than the disk can write are not stored.
  const large = await buildPackage(t, 'large', '1.0', 3 * MIB)
  publish(files, ROOT, [small, large], '2020-01-01')
  const directory = join(await temporaryDirectory(t), 'cache')
  const options = { directory, repositoryPort: port }
  const downloads = async (sluice: Sluice) => {
    const { apt, downloaded } = await machine(t, url + ROOT, sluice)
    await apt('update')
    await apt('install', '--download-only', 'small', 'large')
    const archives = await downloaded()
    t.ok(archives.get('small_1.0_all.deb')?.equals(small.content))
    t.ok(archives.get('large_1.0_all.deb')?.equals(large.content))
    return files.taken()
  }
  // If the disk is too slow to respond in time, the request goes to the mirror again.
  const hits = async (sluice: Sluice) => (await downloads(sluice)).join() === updates(ROOT, 304).join()

  const before = await startPackageCache(t, options)
  const packages = [small, large].map(({ path }) => `200 ${ROOT}${path}`)
  t.same(await downloads(before), [...updates(ROOT, 200), ...packages].sort())
  await until('a machine that has all from the cache', () => hits(before))
  await stored(before, 4)
  await before.stop()

  const after = await startPackageCache(t, options)
  await stored(after, 4)
  await until('a machine that has all from the cache', () => hits(after))
})

t.test('apt, from a mirror with https:// that Sluice is the gateway to', { skip }, async t => {
  const certificates = await makeCertificates(t)
  const mirror = await startMirror(t, certificates)
  const { files, url: forward } = mirror
  const sluice = await startPackageCache(t, {
    origins: { 'deb-cache.example/tls': { forward, ca: certificates.ca } },
  })
  const made = await buildPackage(t, 'small', '1.0', 1000)
  publish(files, '/tls', [made], '2020-01-01')
  const directly = 'Acquire::http::Proxy::127.0.0.1 "DIRECT";'
  for (const status of [200, 304] as const) {
    const { apt, downloaded } = await machine(t, `${sluice.proxyUrl}/tls`, sluice, directly)
    await apt('update')
    t.same(files.taken(), updates('/tls', status))
    await apt('install', '--download-only', 'small')
    t.same(files.taken(), status === 200 ? [`200 /tls${made.path}`] : [])
    t.ok((await downloaded()).get('small_1.0_all.deb')?.equals(made.content))
  }
})
