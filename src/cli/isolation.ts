/**
 * `sluice exec --isolate`: a program in a network namespace of its own (network_namespaces(7)), whose loopback has the
 * proxy and nothing else. What has the right to make one is a user namespace, which needs no privileges.
 *
 * Sockets belong to the namespace in which they were made, whoever holds them. So nothing is relayed: in there, a Node that
 * lives for a moment listens, and sends the socket over its channel, a Unix socket, to the proxy, which stays outside and
 * accepts from it. Then the same process that made the namespaces becomes the program, a child of ours as without them:
 * with our streams, our terminal and our signals, but without capabilities, so that it cannot change what it finds.
 */
import type { ChildProcess, StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, lstatSync, readFileSync } from 'node:fs'
import { Server } from 'node:net'
import { platform } from 'node:os'
import type { TcpAddress } from '../config/listen-address.js'

/** In there every port is free, and this one is where people look for a proxy. */
export const ISOLATED_PROXY: TcpAddress = { host: '127.0.0.1', port: 3128 }

/**
 * Listens, sends the socket with the arguments, and has done its part when the proxy listens on it. The end of the
 * proxy is its own.
 */
const LISTENER = `
const server = require('node:net').createServer()
server.listen(${ISOLATED_PROXY.port}, '${ISOLATED_PROXY.host}', () => process.send(process.argv.slice(1), server))
process.once('message', () => process.exit(0))
process.once('disconnect', () => process.exit(1))
`

/** SIOCSIFFLAGS of netdevice(7), with IFF_UP, IFF_LOOPBACK and IFF_RUNNING; every Debian has perl, few images have ip. */
const LOOPBACK_UP = 'socket(S,2,2,0) && ioctl(S,0x8914,my $r=pack("a16 s x22","lo",0x49)) || die "$!\\n"'

/**
 * Runs with all capabilities of the new namespaces; its standard error is a pipe to us, and 4 is that of the program. It is
 * bash, as other shells lose the variables whose names are no identifiers. An unprivileged mount hides what is below
 * it for good: those who have no capabilities here cannot take it away.
 */
const SETUP = `
node=$1 listener=$2 loopback_up=$3
shift 3
visible=()
until [[ $1 == -- ]]; do
  mount --bind /dev/null "$1" 2>/dev/null || visible+=("$1")
  shift
done
shift
type -P setpriv >/dev/null || { echo 'there is no program setpriv (util-linux)' >&2; exit 1; }
PATH=$PATH:/usr/sbin:/sbin ip link set lo up 2>/dev/null || perl -e "$loopback_up" || {
  echo 'loopback cannot be brought up: ip (iproute2) or perl has to be there, and permitted to' >&2
  exit 1
}
NODE_OPTIONS= "$node" -e "$listener" -- "\${visible[@]}" </dev/null >&2 || exit 1
unset NODE_CHANNEL_FD NODE_CHANNEL_SERIALIZATION_MODE
exec setpriv --no-new-privs --ambient-caps=-all --inh-caps=-all --bounding-set=-all -- "$@" 2>&4 3>&- 4>&-
`

/** Those of the program, but for standard error, which it gets as 4 when all is set up; 3 is the channel. */
export const ISOLATED_STDIO: StdioOptions = ['inherit', 'inherit', 'pipe', 'ipc', 2]

/**
 * @param node path of the `node` that listens
 * @param hidden paths of sockets
 * @param command the program and its arguments
 * @returns a program and its arguments
 */
export function isolated(
  node: string,
  hidden: readonly string[],
  command: readonly string[],
): readonly [string, ...string[]] {
  return [
    'unshare',
    // The user is the same in there; a mount of our own may not appear outside, and mounts from outside may appear here.
    ...['--user', '--map-current-user', '--keep-caps', '--net', '--mount', '--propagation=unchanged', '--'],
    ...['bash', '-pc', SETUP, 'sluice', node, LISTENER, LOOPBACK_UP, ...hidden, '--', ...command],
  ]
}

/**
 * The Unix sockets that are found by a path and that this process could connect to: they belong to the namespace as little
 * as files do. Behind them are resolvers of names, container engines, and others that could act for the program.
 * @param table `/proc/net/unix`
 */
export function connectableSockets(table: string, isConnectable = canConnect): string[] {
  const paths = table.split('\n').flatMap(line => /^\S+: (?:\S+ +){5} *\d+ (\/.*)$/.exec(line)?.[1] ?? [])
  return [...new Set(paths)].filter(isConnectable)
}

function canConnect(path: string): boolean {
  try {
    if (!lstatSync(path).isSocket()) return false
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

export function socketsToHide(): string[] {
  return connectableSockets(readOrEmpty('/proc/net/unix'))
}

/** What this system is without, for people; undefined where there may be namespaces. */
export function unsupported(system: string = platform()): string | undefined {
  if (system === 'linux') return undefined
  return `--isolate needs the namespaces of Linux, and this system is ${system}; on it, run sluice in a container`
}

/** What may refuse namespaces, and what its administrator can do. */
const REFUSALS = [
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    is: /^0$/m,
    remedy: 'user namespaces are switched off: sysctl kernel.unprivileged_userns_clone=1',
  },
  {
    file: '/proc/sys/user/max_user_namespaces',
    is: /^0$/m,
    remedy: 'user namespaces are switched off: sysctl user.max_user_namespaces=10000',
  },
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    is: /^1$/m,
    remedy:
      'AppArmor restricts user namespaces: a profile for unshare with "userns,", or sysctl kernel.apparmor_restrict_unprivileged_userns=0',
  },
  {
    file: '/proc/self/status',
    is: /^Seccomp:\t2$/m,
    remedy:
      'a seccomp filter is in force, as in containers: docker run --security-opt seccomp=unconfined, in Kubernetes seccompProfile: { type: Unconfined }',
  },
] as const

const REFUSED = /not permitted|denied|No space left/

/**
 * @param said by the programs that were to make the namespaces
 * @param read gives the text of a file, empty where there is none
 * @returns why there is no isolation, for people
 */
export function explainFailure(said: string, read: (path: string) => string = readOrEmpty): string {
  const remedies = REFUSED.test(said)
    ? REFUSALS.flatMap(({ file, is, remedy }) => (is.test(read(file)) ? [`\n  ${remedy}`] : []))
    : []
  return `--isolate: the program was not run, as it cannot be isolated: ${said.trim()}${remedies.join('')}`
}

/** What a child process that is being isolated makes known. */
export class Isolation {
  readonly #serve: (listener: Server, visible: readonly string[]) => Promise<void>
  #serving: Promise<void> | undefined
  #said = ''
  #ended: Promise<unknown> | undefined

  /**
   * @param serve makes a proxy accept from the socket, and is told of the sockets that could not be hidden; the program
   *   is not run when it rejects
   */
  constructor(serve: (listener: Server, visible: readonly string[]) => Promise<void>) {
    this.#serve = serve
  }

  /** To be called before it can have said anything. */
  watch(child: ChildProcess): void {
    if (child.stderr === null) throw new TypeError('its standard error is no pipe')
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#said += text
    })
    this.#ended = once(child.stderr, 'close')
    child.once('message', (visible, listener) => {
      this.#serving =
        listener instanceof Server
          ? this.#serve(listener, visible as string[])
          : Promise.reject(new Error('no socket came out of the namespace'))
      this.#serving.then(
        // It may have ended meanwhile; that is seen elsewhere.
        () => child.connected && child.send('serving', () => {}),
        () => child.kill('SIGKILL'),
      )
    })
  }

  /**
   * To be called when it has ended.
   * @returns whether the program was run; else what was said instead
   * @throws as `serve` does
   */
  async outcome(): Promise<{ readonly said: string } | undefined> {
    if (this.#serving !== undefined) {
      await this.#serving
      return undefined
    }
    await this.#ended
    return { said: this.#said }
  }
}
