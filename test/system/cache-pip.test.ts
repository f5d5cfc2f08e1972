/**
 * pip with Sluice as the gateway to its index, as in config/examples/packages.yaml: Sluice uses https:// to the index, and
 * pip uses http:// to Sluice.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { makeCertificates, sha256 } from './origin.js'
import { startMirror, startPackageCache, succeed } from './package-cache.js'
import { needsBuild } from './program.js'

const WHEEL = 'greeting-1.0-py3-none-any.whl'
const MAKE_WHEEL = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('greeting.py', 'hello = "world"\\n' * 10000)
    info = 'greeting-1.0.dist-info/'
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', 'greeting.py,,\\n')
`

/** A Python interpreter may have no pip. */
async function lacksPip(): Promise<string | false> {
  const { code } = await run('python3', ['-m', 'pip', '--version'])
  return code === 0 || process.env['CI'] === 'true' ? false : 'Python has no pip'
}

const skip = needs('python3', 'openssl') || needsBuild() || (await lacksPip())

async function makeWheel(t: Test): Promise<Buffer> {
  const file = join(await temporaryDirectory(t), WHEEL)
  await succeed('python3', ['-c', MAKE_WHEEL, file])
  return readFile(file)
}

/** A machine without downloads: it has an empty cache, and no configuration of the machine that runs the test. */
async function pipDownload(t: Test, ...args: string[]): Promise<Buffer> {
  const folder = await temporaryDirectory(t)
  const env = {
    HOME: folder,
    PIP_CONFIG_FILE: '/dev/null',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    PIP_CACHE_DIR: join(folder, 'cache'),
    PIP_RETRIES: '0',
  }
  await succeed('python3', ['-m', 'pip', 'download', '--no-deps', '--dest', folder, ...args], { env })
  return readFile(join(folder, WHEEL))
}

t.test('pip, with Sluice as a gateway', { skip }, async t => {
  const certificates = await makeCertificates(t)
  const wheel = await makeWheel(t)
  const hash = sha256(wheel)
  const index = await startMirror(t, certificates)
  const elsewhere = await startMirror(t, certificates)
  const plain = await startMirror(t)
  const { ca } = certificates
  const sluice = await startPackageCache(t, {
    repositoryPort: plain.port,
    origins: {
      'pip-cache.example/simple': { forward: index.url, ca },
      'pip-cache.example/packages': { forward: index.url, ca },
    },
  })
  const pip = (t: Test, ...more: string[]) =>
    pipDownload(t, '--index-url', `${sluice.proxyUrl}/simple/`, ...more)
  const page = (link: string) => `<!DOCTYPE html><a href="${link}#sha256=${hash}">${WHEEL}</a>`
  const file = `/packages/${WHEEL}`
  for (const { files } of [index, elsewhere, plain]) files.publish(file, wheel)

  await t.test(
    'files that the index links to by a path are cached, and index pages are validated',
    async t => {
      index.files.publish('/simple/greeting/', page(`../..${file}`), 'text/html')
      t.ok((await pip(t, 'greeting')).equals(wheel))
      t.same(index.files.taken(), [`200 ${file}`, '200 /simple/greeting/'])
      t.ok((await pip(t, 'greeting')).equals(wheel))
      t.same(index.files.taken(), ['304 /simple/greeting/'])
    },
  )

  await t.test('a new release is seen at once', async t => {
    index.files.publish(
      '/simple/greeting/',
      page(`/packages/${WHEEL}`).concat('<!-- and more -->'),
      'text/html',
    )
    t.ok((await pip(t, 'greeting')).equals(wheel))
    t.same(index.files.taken(), ['200 /simple/greeting/'])
  })

  await t.test('files that it links to by an https:// URL of another host are fetched directly', async t => {
    index.files.publish('/simple/greeting/', page(`${elsewhere.url}${file}`), 'text/html')
    for (let i = 0; i < 2; i++) {
      t.ok((await pip(t, '--cert', ca, 'greeting')).equals(wheel))
      t.same(elsewhere.files.taken(), [`200 ${file}`])
    }
    t.notOk(index.files.taken().some(asked => asked.endsWith(file)))
  })

  await t.test('such files are fetched through Sluice if the links have its address', async t => {
    const requirements = join(await temporaryDirectory(t), 'requirements.txt')
    await writeFile(requirements, `greeting @ ${sluice.proxyUrl}${file}#sha256=${hash}\n`)
    for (let i = 0; i < 2; i++) t.ok((await pip(t, '--requirement', requirements)).equals(wheel))
    t.same(index.files.taken(), [])
    t.same(elsewhere.files.taken(), [])
  })

  await t.test('an http:// index with absolute links is cached through the proxy', async t => {
    plain.files.publish('/simple/greeting/', page(`${plain.url}${file}`), 'text/html')
    const args = ['--proxy', sluice.proxyUrl, '--index-url', `${plain.url}/simple/`, 'greeting']
    t.ok((await pipDownload(t, ...args)).equals(wheel))
    t.same(plain.files.taken(), [`200 ${file}`, '200 /simple/greeting/'])
    t.ok((await pipDownload(t, ...args)).equals(wheel))
    t.same(plain.files.taken(), ['304 /simple/greeting/'])
  })
})
