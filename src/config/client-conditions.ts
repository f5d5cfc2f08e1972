/** What the keys of one entry of `clients` say about each other: conditions that nobody meets, or everybody. */
import type { Path } from './problem.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

export function checkClientConditions(root: Located): Fault[] {
  return [
    ...clientConditions(root),
    ...unixWithAddress(root),
    ...usersWithoutFile(root),
    ...connectionsOfUnknown(root),
  ]
}

function entriesOf(root: Located): [string | number, Located][] {
  return [...(valueAt(root, 'clients')?.children ?? [])]
}

/** The conditions other than `certificate`; `users` without `basic` is reported separately. */
const CONDITIONS = ['cidr', 'unix', 'basic', 'users'] as const

/** An entry without a condition would match every client; one with `certificate` none, if no certificates are requested. */
function clientConditions(root: Located): Fault[] {
  const asksForCertificates = valueAt(root, 'listen', 'tls', 'client_ca') !== undefined
  return entriesOf(root).flatMap(([client, node]) => {
    const certificate = node.children.get('certificate')
    if (certificate !== undefined) {
      const path: Path = ['clients', client, 'certificate']
      if (certificate.value !== null && certificate.children.size === 0) {
        return [
          {
            offset: certificate.key,
            path,
            message: 'expected san or subject; for any certificate write `subject: ["*"]`',
          },
        ]
      }
      const message = 'certificates are not requested; set client_ca in listen.tls'
      return asksForCertificates ? [] : [{ offset: certificate.key, path, message }]
    }
    if (node.children.size === 0 || CONDITIONS.some(key => node.children.has(key))) return []
    const path: Path = ['clients', client]
    const message =
      'expected cidr, unix, basic or certificate: without one the entry would match every client'
    return [{ offset: node.key, path, message }]
  })
}

/** Entries that never match: a connection over a Unix socket has neither an address nor a certificate. */
function unixWithAddress(root: Located): Fault[] {
  return entriesOf(root).flatMap(([client, { children }]) => {
    const unix = children.get('unix')
    const other = (['cidr', 'certificate'] as const).find(key => children.has(key))
    if (unix?.value !== true || other === undefined) return []
    const message = `no client meets it together with ${other}: a connection over a Unix socket has none`
    return [{ offset: unix.key, path: ['clients', client, 'unix'], message }]
  })
}

/** `users` without a password file, which would have no effect. */
function usersWithoutFile(root: Located): Fault[] {
  return entriesOf(root).flatMap(([client, { children }]) => {
    const users = children.get('users')
    if (users === undefined || children.has('basic')) return []
    const message =
      'users needs passwords; add basic: { htpasswd_file: FILE }, which several entries may share'
    return [{ offset: users.key, path: ['clients', client, 'users'], message }]
  })
}

/** Connections are counted when they are accepted: nobody has shown a password or a certificate by then. */
function connectionsOfUnknown(root: Located): Fault[] {
  return entriesOf(root).flatMap(([client, { children }]) => {
    const limit = children.get('limits')?.children.get('connections_per_client')
    const condition = (['basic', 'certificate'] as const).find(key => children.has(key))
    if (limit === undefined || condition === undefined) return []
    const path: Path = ['clients', client, 'limits', 'connections_per_client']
    const message = `connections are counted before it is known who asks, so that an entry with ${condition} has no limit of its own; set limits.connections_per_client`
    return [{ offset: limit.key, path, message }]
  })
}
