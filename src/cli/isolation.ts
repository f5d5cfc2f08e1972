/**
 * `sluice exec --isolate`: runs a program in a network namespace of its own (network_namespaces(7)), on whose loopback only the
 * proxy listens. The namespace is created in a user namespace, which needs no privileges.
 *
 * A socket belongs to the namespace in which it was created, whichever process holds it, so nothing has to be relayed: inside, a
 * short-lived Node process listens and sends the socket over its channel, a Unix socket, to the proxy, which stays outside and
 * accepts connections from it. Then the process that created the namespaces becomes the program. It is a child of ours as
 * without isolation, with our streams, terminal and signals, but has no capabilities and cannot change its namespaces.
 */
import type { ChildProcess, StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, lstatSync, readFileSync } from 'node:fs'
import { Server } from 'node:net'
import { platform } from 'node:os'
import type { TcpAddress } from '../config/listen-address.js'

/** Every port of the namespace is free; this is the usual one for a proxy. */
export const ISOLATED_PROXY: TcpAddress = { host: '127.0.0.1', port: 3128 }

/**
 * Listens, sends the socket with its arguments, and ends as soon as the proxy listens on it, or if the proxy ends.
 */
const LISTENER = `
const server = require('node:net').createServer()
server.listen(${ISOLATED_PROXY.port}, '${ISOLATED_PROXY.host}', () => process.send(process.argv.slice(1), server))
process.once('message', () => process.exit(0))
process.once('disconnect', () => process.exit(1))
`

/** SIOCSIFFLAGS of netdevice(7), with IFF_UP, IFF_LOOPBACK and IFF_RUNNING; every Debian has perl, but few images have ip. */
const LOOPBACK_UP = 'socket(S,2,2,0) && ioctl(S,0x8914,my $r=pack("a16 s x22","lo",0x49)) || die "$!\\n"'

/**
 * The script runs with all capabilities of the new namespaces. Its standard error is a pipe to us; descriptor 4 is the standard
 * error of the program. It needs bash, because other shells drop variables whose names are not identifiers. A mount hides what
 * is below it permanently, because a program without capabilities cannot remove it.
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

/** The streams of the program, except standard error, which is 4 until everything is set up; 3 is the channel. */
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
    // The user stays the same; mounts inside are not visible outside, but those outside are visible inside.
    ...['--user', '--map-current-user', '--keep-caps', '--net', '--mount', '--propagation=unchanged', '--'],
    ...['bash', '-pc', SETUP, 'sluice', node, LISTENER, LOOPBACK_UP, ...hidden, '--', ...command],
  ]
}

/**
 * The Unix sockets with a path to which this process could connect: like files, they do not belong to a network namespace.
 * Resolvers, container engines and other services listen on them, which could act for the program.
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

/** What this system lacks, for people; undefined if it may support namespaces. */
export function unsupported(system: string = platform()): string | undefined {
  if (system === 'linux') return undefined
  return `--isolate needs the namespaces of Linux, and this system is ${system}; on it, run sluice in a container`
}

/** What may forbid namespaces, and what an administrator can change. */
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
 * @param said the output of the programs that should create the namespaces
 * @param read reads the text of a file; empty if it does not exist
 * @returns why isolation failed, for people
 */
export function explainFailure(said: string, read: (path: string) => string = readOrEmpty): string {
  const remedies = REFUSED.test(said)
    ? REFUSALS.flatMap(({ file, is, remedy }) => (is.test(read(file)) ? [`\n  ${remedy}`] : []))
    : []
  return `--isolate: the program was not run, as it cannot be isolated: ${said.trim()}${remedies.join('')}`
}

/** Receives the messages of a child process while it is being isolated. */
export class Isolation {
  readonly #serve: (listener: Server, visible: readonly string[]) => Promise<void>
  #serving: Promise<void> | undefined
  #said = ''
  #ended: Promise<unknown> | undefined

  /**
   * @param serve makes the proxy accept connections from the socket; also receives the sockets that could not be hidden. If it
   *   rejects, the program is not run
   */
  constructor(serve: (listener: Server, visible: readonly string[]) => Promise<void>) {
    this.#serve = serve
  }

  /** To be called before the child can have sent a message. */
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
        // The child may have ended; that is handled elsewhere.
        () => child.connected && child.send('serving', () => {}),
        () => child.kill('SIGKILL'),
      )
    })
  }

  /**
   * To be called when the child has ended.
   * @returns whether the program was run; otherwise the output that says why not
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
