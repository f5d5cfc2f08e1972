/**
 * A Docker engine for the test, separate from any other on the machine: its data, socket and process are removed when the
 * test ends. It needs no image registry: the base image is made here, from Debian packages and a Node binary.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, cp, mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { type Finished, needs, run, temporaryDirectory } from '../kit/processes/command.js'

export interface Docker {
  /** Runs one docker command to its end. */
  (...args: string[]): Promise<Finished>
  /** The standard output of a command that must succeed, without its last line end. */
  read(...args: string[]): Promise<string>
  /** The first matching line of an endless command (`events`, `logs --follow`), which is then stopped. */
  firstLine(pattern: RegExp, ...args: string[]): Promise<string>
}

const MINUTE = 60_000

/** The `skip` of a test that needs the engine: its programs, and the permission to start containers. */
export function needsDocker(): string | false {
  if (process.getuid?.() !== 0 && process.env['CI'] !== 'true') return 'only root can start a Docker engine'
  return needs('docker', 'dockerd', 'debootstrap', 'setpriv', 'unshare', 'tar')
}

/** Starts the engine and waits until it responds. */
export async function startDocker(t: Test): Promise<Docker> {
  const directory = await temporaryDirectory(t)
  const socket = `unix://${join(directory, 'socket')}`
  const where = ['--data-root', join(directory, 'data'), '--exec-root', join(directory, 'exec')]
  const network = ['--iptables=false', '--bridge=none']
  // The kernel stops the engine whenever this process dies, and removes its mounts when the engine ends.
  const daemon = spawn(
    'unshare',
    [
      ...['--mount', 'setpriv', '--pdeathsig', 'TERM', 'dockerd', '--host', socket],
      ...['--pidfile', join(directory, 'pid'), ...where, ...network],
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  const exited = once(daemon, 'exit')
  // BuildKit needs a separate plug-in; the builder of every engine is enough for the Dockerfile.
  const env = { DOCKER_HOST: socket, DOCKER_BUILDKIT: '0', HOME: directory }
  const docker = (...args: string[]) => run('docker', args, { env, timeoutMs: 10 * MINUTE })
  t.teardown(async () => {
    const { stdout } = await docker('ps', '--all', '--quiet')
    const containers = stdout.split('\n').filter(id => id !== '')
    if (containers.length > 0) await docker('rm', '--force', ...containers)
    daemon.kill('SIGTERM')
    await exited
  })
  const messages: string[] = []
  for await (const line of createInterface({ input: daemon.stderr })) {
    messages.push(line)
    if (line.includes('API listen on')) break
  }
  if (daemon.exitCode !== null) throw new Error(`dockerd: ${messages.join('\n')}`)
  daemon.stderr.resume()

  return Object.assign(docker, {
    async read(...args: string[]) {
      const { code, stdout, stderr } = await docker(...args)
      if (code !== 0) throw new Error(`docker ${args.join(' ')}: ${stdout}${stderr}`)
      return stdout.trimEnd()
    },
    async firstLine(pattern: RegExp, ...args: string[]) {
      const child = spawn('docker', args, {
        env: { PATH: process.env['PATH'], ...env },
        stdio: ['ignore', 'pipe', 'ignore'],
        timeout: MINUTE,
      })
      const seen: string[] = []
      try {
        for await (const line of createInterface({ input: child.stdout })) {
          if (pattern.test(line)) return line
          seen.push(line)
        }
      } finally {
        child.kill()
      }
      throw new Error(`no line matches ${pattern}:\n${seen.join('\n')}`)
    },
  })
}

/**
 * Makes a base image like the official one of Node: Debian, `node` and `npm` in /usr/local. npm uses the same registry and
 * the same certificate authorities as that of this machine.
 *
 * @param tag the name of the image in the Dockerfile
 * @param node the path of the `node` binary to install
 */
export async function makeBaseImage(t: Test, docker: Docker, tag: string, node: string): Promise<void> {
  const directory = await temporaryDirectory(t)
  const root = join(directory, 'root')
  // debootstrap mounts /proc in the new root; in a separate mount namespace that is removed with its process.
  const debootstrap = [
    'debootstrap',
    '--variant=minbase',
    '--include=libatomic1,libstdc++6',
    'bookworm',
    root,
  ]
  await succeed('unshare', '--mount', ...debootstrap)
  const local = join(root, 'usr/local')
  await copyFile(node, join(local, 'bin/node'))
  const modules = (await succeed('npm', 'root', '--global')).trim()
  await cp(join(modules, 'npm'), join(local, 'lib/node_modules/npm'), { recursive: true })
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'))
  await mkdir(join(local, 'etc'), { recursive: true })
  await writeFile(join(local, 'etc/npmrc'), await npmSettings(root))
  const image = join(directory, 'base.tar')
  const left = ['./var/cache/apt/*', './var/lib/apt/lists/*', './usr/share/doc/*', './usr/share/locale/*']
  await succeed(
    'tar',
    '--directory',
    root,
    ...left.map(path => `--exclude=${path}`),
    '--create',
    '--file',
    image,
    '.',
  )
  await docker.read('import', image, tag)
}

/** The settings that npm needs to reach its registry; no others, and no credentials. */
async function npmSettings(root: string): Promise<string> {
  const setting = async (key: string) => {
    const value = (await succeed('npm', 'config', 'get', key)).trim()
    return value === '' || value === 'null' ? undefined : value
  }
  const lines: string[] = []
  for (const key of ['registry', 'proxy', 'https-proxy', 'noproxy']) {
    const value = await setting(key)
    if (value !== undefined) lines.push(`${key}=${value}`)
  }
  const authorities = (await setting('cafile')) ?? process.env['NODE_EXTRA_CA_CERTS']
  if (authorities !== undefined) {
    await copyFile(authorities, join(root, 'etc/npm-authorities.crt'))
    lines.push('cafile=/etc/npm-authorities.crt')
  }
  return `${lines.join('\n')}\n`
}

/** Runs a program with the complete environment, which may contain the machine's settings for registries. */
async function succeed(file: string, ...args: string[]): Promise<string> {
  const { HOME = '/root', ...rest } = process.env
  const env = Object.fromEntries(Object.entries({ ...rest, HOME }).filter(([key]) => !key.startsWith('npm_')))
  const finished = await run(file, args, { env: env as Record<string, string>, timeoutMs: 10 * MINUTE })
  if (finished.code !== 0) throw new Error(`${file} ${args.join(' ')}: ${finished.stdout}${finished.stderr}`)
  return finished.stdout
}
