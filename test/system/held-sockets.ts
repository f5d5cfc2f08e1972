/** Finds out which process has the server's socket of a client's connection, from /proc (Linux). */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** Columns of /proc/net/tcp. */
const LOCAL = 1
const REMOTE = 2
const STATE = 3
const INODE = 9
const LISTEN = '0A'

/**
 * The clients of a server on 127.0.0.1, by the process that has the server's socket.
 *
 * @param port the port of the server
 * @returns for each process the ports of its clients; an empty set for a process that no longer exists
 */
export function clientPorts(pids: readonly number[], port: number): Map<number, ReadonlySet<number>> {
  const ends = serverEnds(port).map(columns => [columns[INODE] ?? '', portOf(columns[REMOTE])] as const)
  const clients = new Map(ends)
  return new Map(
    pids.map(pid => [pid, new Set(socketsOf(pid).flatMap(inode => clients.get(inode) ?? []))] as const),
  )
}

/** Whether a process has the listening socket. */
export function isListener(pid: number, port: number): boolean {
  const own = socketsOf(pid)
  return serverEnds(port).some(columns => columns[STATE] === LISTEN && own.includes(columns[INODE] ?? ''))
}

function serverEnds(port: number): string[][] {
  const lines = readFileSync('/proc/net/tcp', 'latin1').split('\n').slice(1)
  return lines.map(line => line.trim().split(/\s+/)).filter(columns => portOf(columns[LOCAL]) === port)
}

function portOf(address = ''): number {
  return Number.parseInt(address.split(':')[1] ?? '', 16)
}

/** The inodes of the sockets that a process has. */
function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`
  let names: string[]
  try {
    names = readdirSync(folder)
  } catch {
    return []
  }
  return names.flatMap(name => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${name}`))?.[1] ?? []
    } catch {
      // It has been closed meanwhile.
      return []
    }
  })
}
