/** `listen`: the addresses of the proxy and of the admin listener, and the load balancers whose PROXY headers are trusted. */
import * as z from 'zod'
import {
  basic,
  cidr,
  EXPECTED_CIDRS,
  filePath,
  list,
  nonEmptyList,
  parsed,
  section,
  text,
  trueOrFalse,
} from './fields.js'
import { parseHostPattern } from '../net/host-pattern.js'
import {
  DEFAULT_ADMIN,
  type ListenAddress,
  LISTEN_PATTERN,
  LISTEN_TITLE,
  parseListenAddress,
  parseSingleAddress,
  parseTcpAddress,
  TCP_ADDRESS_PATTERN,
  TCP_ADDRESS_TITLE,
} from './listen-address.js'

const listenText = text(LISTEN_TITLE, { pattern: LISTEN_PATTERN })
const tcpText = text(TCP_ADDRESS_TITLE, { pattern: TCP_ADDRESS_PATTERN })
const adminAddress = parsed(listenText, parseSingleAddress)

const guardedAdmin = section({
  address: adminAddress.prefault(DEFAULT_ADMIN).describe('Where the admin listener listens.'),
  cidr: z
    .exactOptional(nonEmptyList(cidr, EXPECTED_CIDRS))
    .describe(
      'Addresses that may ask for more than `/health`, `/ready` and `/proxy.pac`. Left out: every address.',
    )
    .meta({ examples: [['10.0.5.0/24']] }),
  basic: z
    .exactOptional(basic)
    .describe('A name and a password that are needed to ask for more than these three. Left out: none.'),
  read_only: trueOrFalse()
    .prefault(false)
    .describe(
      'Whether changes are refused: no tunnel can be closed there, and nothing purged from the cache.',
    ),
}).transform(({ read_only: readOnly, ...rest }) => ({ ...rest, readOnly }))

/** Who may use the admin listener, and for what. */
type AdminAccess = Omit<z.output<typeof guardedAdmin>, 'address'>

const OPEN: AdminAccess = { readOnly: false }

const ADMIN_TITLE = `${LISTEN_TITLE}, or false, or a map of address, cidr, basic, read_only`
const adminValue = z
  .union([z.literal(false), listenText, guardedAdmin], { error: `expected ${ADMIN_TITLE}` })
  .meta({ title: ADMIN_TITLE })

/** The address, and who may use it. */
const admin = parsed(adminValue, (value): { address: ListenAddress | false; access: AdminAccess } => {
  if (value === false) return { address: false, access: OPEN }
  if (typeof value === 'string') return { address: parseSingleAddress(value), access: OPEN }
  const { address, ...access } = value
  return { address, access }
})

const tls = section({
  address: parsed(tcpText, parseTcpAddress)
    .describe('Where clients connect by TLS.')
    .meta({ examples: ['0.0.0.0:3129'] }),
  cert: filePath
    .describe(
      "Certificate chain in PEM, the listener's own certificate first. Relative paths start at the configuration file.",
    )
    .meta({ examples: ['tls.crt'] }),
  key: filePath.describe('Private key in PEM.').meta({ examples: ['tls.key'] }),
  client_ca: z
    .exactOptional(filePath)
    .describe(
      'Authorities in PEM that client certificates have to be issued under. Left out: no client certificate is requested.',
    )
    .meta({ examples: ['clients-ca.crt'] }),
  crl: z
    .exactOptional(filePath)
    .describe('Revocation lists in PEM, one for each authority of `client_ca` that issues certificates.')
    .meta({ examples: ['clients.crl'] }),
}).transform(({ client_ca: clientCa, ...rest }) => ({
  ...rest,
  ...(clientCa === undefined ? {} : { clientCa }),
}))

const EXPECTED_ADMIN_HOST = 'a host name'

const adminHost = parsed(text(EXPECTED_ADMIN_HOST), value => {
  const refused = (hint = '') => new RangeError(`expected ${EXPECTED_ADMIN_HOST}, found "${value}"${hint}`)
  // The messages of parseHostPattern say how to write wildcards and blocks, which are not accepted here.
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
  from: nonEmptyList(cidr, EXPECTED_CIDRS)
    .describe(
      'Addresses of the load balancers. Every connection from one has to begin with a PROXY header, version 1 or 2.',
    )
    .meta({ examples: [['10.0.0.5']] }),
})

export const listen = section({
  proxy: nonEmptyList(
    parsed(listenText, parseListenAddress),
    'a list of addresses, such as ["127.0.0.1:3128"]',
  )
    .prefault(['127.0.0.1:3128'])
    .describe(
      'Where clients connect: an IP address or localhost, and a port; IPv6 in brackets; port 0 takes any free one. `unix:/run/sluice/proxy.sock` is a Unix socket, `systemd:proxy` the sockets that a systemd unit calls proxy, `systemd` all that it has.',
    ),
  admin: admin
    .prefault(DEFAULT_ADMIN)
    .describe(
      'Where the status page, `/health`, `/ready` and `/metrics` are served; `false` switches them off. A map also says who may ask.',
    ),
  admin_hosts: list(adminHost, 'a list of host names, such as [sluice.example]')
    .prefault([])
    .describe(
      'Names, such as sluice.example, that `Host` may have at the admin listener, besides localhost and every IP address.',
    ),
  tls: z
    .exactOptional(tls)
    .describe(
      'A listener for clients that speak TLS to the proxy, with `https://` in their proxy URL. Left out: none.',
    ),
  socket_mode: socketMode.prefault('0660').describe('Permissions of Unix sockets, in octal and in quotes.'),
  proxy_protocol: z
    .exactOptional(proxyProtocol)
    .describe('Load balancers, which send the address of each client. Left out: none.'),
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
