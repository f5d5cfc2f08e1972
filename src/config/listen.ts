/** `listen`: where clients and the admin listener are served, and whose word on a client's address is taken. */
import * as z from 'zod'
import { basic, cidr, EXPECTED_CIDRS, filePath, list, nonEmptyList, parsed, section, text } from './fields.js'
import { parseHostPattern } from '../net/host-pattern.js'
import {
  DEFAULT_ADMIN,
  EXPECTED_LISTEN,
  EXPECTED_TCP_ADDRESS,
  type ListenAddress,
  LISTEN_PATTERN,
  parseListenAddress,
  parseSingleAddress,
  parseTcpAddress,
  TCP_ADDRESS_PATTERN,
} from './listen-address.js'

const listenText = z.string({ error: EXPECTED_LISTEN }).meta({ pattern: LISTEN_PATTERN })
const tcpText = z.string({ error: EXPECTED_TCP_ADDRESS }).meta({ pattern: TCP_ADDRESS_PATTERN })
const adminAddress = parsed(listenText, parseSingleAddress)

const guardedAdmin = section({
  address: adminAddress.prefault(DEFAULT_ADMIN).describe('Where it is served.'),
  cidr: z
    .exactOptional(nonEmptyList(cidr, EXPECTED_CIDRS))
    .describe('Addresses that may ask for more than /health, /ready and /proxy.pac; absent, every one.'),
  basic: z
    .exactOptional(basic)
    .describe('Names and passwords, one of which whoever asks for more has to give; absent, none.'),
  read_only: z
    .boolean({ error: 'expected true or false' })
    .prefault(false)
    .describe('Whether nothing can be changed there: no tunnel closed, nothing of the cache purged.'),
}).transform(({ read_only: readOnly, ...rest }) => ({ ...rest, readOnly }))

/** Who may ask the admin listener for what. */
type AdminAccess = Omit<z.output<typeof guardedAdmin>, 'address'>

const OPEN: AdminAccess = { readOnly: false }

const adminValue = z.union([z.literal(false), listenText, guardedAdmin], {
  error: `${EXPECTED_LISTEN}, or false, or a map of address, cidr, basic, read_only`,
})

/** With whom it speaks, beside where. */
const admin = parsed(adminValue, (value): { address: ListenAddress | false; access: AdminAccess } => {
  if (value === false) return { address: false, access: OPEN }
  if (typeof value === 'string') return { address: parseSingleAddress(value), access: OPEN }
  const { address, ...access } = value
  return { address, access }
})

const tls = section({
  address: parsed(tcpText, parseTcpAddress).describe('Where clients connect by TLS.'),
  cert: filePath.describe('Certificate chain in PEM, the own certificate first.'),
  key: filePath.describe('Private key in PEM.'),
  client_ca: z
    .exactOptional(filePath)
    .describe('Certificates in PEM that client certificates have to be issued under.'),
  crl: z
    .exactOptional(filePath)
    .describe('Revocation lists in PEM, one for each authority of client_ca that issues.'),
}).transform(({ client_ca: clientCa, ...rest }) => ({
  ...rest,
  ...(clientCa === undefined ? {} : { clientCa }),
}))

const EXPECTED_ADMIN_HOST = 'a host name'

const adminHost = parsed(text(EXPECTED_ADMIN_HOST), value => {
  const refused = (hint = '') => new RangeError(`expected ${EXPECTED_ADMIN_HOST}, found "${value}"${hint}`)
  // What is said of wildcards and blocks is of how to write them.
  if (value.includes('*') || (value.includes('/') && !value.includes('://'))) throw refused()
  const pattern = parseHostPattern(value, { expected: EXPECTED_ADMIN_HOST })
  if (pattern.kind === 'exact') return pattern.name
  throw refused(pattern.kind === 'address' ? '; addresses need not be listed' : '')
})

const MODE_PATTERN = '^0?[0-7]{3}$'
const MODE = new RegExp(MODE_PATTERN)
const EXPECTED_MODE = 'permissions in octal and in quotes, such as "0660"'

const socketMode = parsed(text(EXPECTED_MODE, { pattern: MODE_PATTERN }), value => {
  if (MODE.test(value)) return Number.parseInt(value, 8)
  throw new RangeError(`expected ${EXPECTED_MODE}, found "${value}"`)
})

const proxyProtocol = section({
  from: nonEmptyList(cidr, EXPECTED_CIDRS).describe(
    'Addresses of the load balancers; a connection from one has to begin with a PROXY header.',
  ),
})

export const listen = section({
  proxy: nonEmptyList(
    parsed(listenText, parseListenAddress),
    'a list of addresses, such as ["127.0.0.1:3128"]',
  )
    .prefault(['127.0.0.1:3128'])
    .describe(
      'Where clients connect. IP address or localhost, and port; port 0 is any free one. unix: and an absolute path; systemd: and the name of a socket, or systemd for all.',
    ),
  admin: admin
    .prefault(DEFAULT_ADMIN)
    .describe(
      'Where the status page, /health, /ready and /metrics are served; false switches it off. A map says too who may ask.',
    ),
  admin_hosts: list(adminHost, 'a list of host names, such as [sluice.example]')
    .prefault([])
    .describe('Names that Host may have at listen.admin, beside localhost and every IP address.'),
  tls: z.exactOptional(tls).describe('A listener for clients that speak TLS to the proxy; absent, none.'),
  socket_mode: socketMode.prefault('0660').describe('Permissions of Unix sockets, in octal.'),
  proxy_protocol: z
    .exactOptional(proxyProtocol)
    .describe('Load balancers that tell the address of a client; absent, nobody is asked.'),
}).transform(
  ({ admin, admin_hosts: adminHosts, socket_mode: socketMode, proxy_protocol: proxyProtocol, ...rest }) => ({
    ...rest,
    admin: admin.address,
    adminAccess: admin.access,
    adminHosts,
    socketMode,
    ...(proxyProtocol === undefined ? {} : { proxyProtocol }),
  }),
)
