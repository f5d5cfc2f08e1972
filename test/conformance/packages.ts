/**
 * Fetches the suite http-cache-tests, and the packages that its client needs, by npm into a folder. Each package is a file
 * that must have the hash below, and is unpacked where Node finds it. None of their scripts is run, and further
 * dependencies of the suite (for a page in a browser, npm itself) are not fetched.
 */
import { createHash } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../kit/processes/command.js'

/** The version is fixed, as scores of different versions cannot be compared. */
const VERSION = '0.4.5'
export const SUITE = `http-cache-tests ${VERSION}`

interface Package {
  readonly name: string
  readonly version: string
  /** The SHA-512 digest of the packed file, in base64. */
  readonly sha512: string
}

const PACKAGES: readonly Package[] = [
  {
    name: 'http-cache-tests',
    version: VERSION,
    sha512: 'DjuwN9nUZXLTW+wav1LRESCZNVxl8SshwOy4z1pxuWbWt5/ay6sM9QQ1lebBaDO6P1IMBoK6mdf+PuVP/QNL8A==',
  },
  {
    name: 'node-fetch',
    version: '2.7.0',
    sha512: 'c4FRfUm/dbcWZ7U+1Wq0AwCyFL+3nt2bEw05wfxSz+DWpWsitgmSgYmy2dQdWyKC1694ELPqMs/YzUSNozLt8A==',
  },
  {
    name: 'whatwg-url',
    version: '5.0.0',
    sha512: 'saE57nupxk6v3HY35+jzBwYa0rKSy0XR8JSxZPwgLr7ys0IBzhGviA1/TUGJLmSVqs8pb9AnvICXEuOHLprYTw==',
  },
  {
    name: 'tr46',
    version: '0.0.3',
    sha512: 'N3WMsuqV66lT30CrXNbEjx4GEwlow3v6rr4mCcv6prnfwhS01rkgyFdjPNBYd9br7LpXV1+Emh01fHnq2Gdgrw==',
  },
  {
    name: 'webidl-conversions',
    version: '3.0.1',
    sha512: '2JAn3z8AR6rjK8Sm8orRC0h/bcl/DqL7tRPdGZ4I1CjdF+EaMLmYxBHyXuKL849eucPFhvBoxMsflfOb8kxaeQ==',
  },
]

/** The timeout for npm, as the registry may be slow. */
const FETCH_MS = 60_000

/**
 * @param folder an empty folder
 * @returns the folder of the suite
 * @throws Error if a package cannot be fetched, or does not have its hash
 */
export async function fetchSuite(folder: string): Promise<string> {
  const specs = PACKAGES.map(({ name, version }) => `${name}@${version}`)
  const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder, ...specs]
  // npm uses the user's own settings: its cache and its registry.
  const env = { HOME: process.env['HOME'] ?? folder, ...npmVariables() }
  const packed = await run('npm', args, { cwd: folder, env, timeoutMs: FETCH_MS })
  if (packed.code !== 0) throw new Error(`npm cannot fetch ${specs.join(', ')}: ${packed.stderr.trim()}`)
  for (const wanted of PACKAGES) await unpack(folder, wanted)
  return join(folder, 'node_modules/http-cache-tests')
}

function npmVariables(): Record<string, string> {
  const own = Object.entries(process.env).filter(([name]) =>
    /^npm_config_|_proxy$|^NODE_EXTRA_CA/i.test(name),
  )
  return Object.fromEntries(own.map(([name, value]) => [name, value ?? '']))
}

async function unpack(folder: string, { name, version, sha512 }: Package): Promise<void> {
  const file = join(folder, `${name}-${version}.tgz`)
  const found = createHash('sha512')
    .update(await readFile(file))
    .digest('base64')
  if (found !== sha512) throw new Error(`${name} ${version} has the hash ${found}, not ${sha512}`)
  const target = join(folder, 'node_modules', name)
  await mkdir(target, { recursive: true })
  const unpacked = await run('tar', ['-xzf', file, '-C', target, '--strip-components=1', '--no-same-owner'])
  if (unpacked.code !== 0) throw new Error(`${name} cannot be unpacked: ${unpacked.stderr.trim()}`)
}
