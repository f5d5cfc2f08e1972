/**
 * `origins`: routes, by host and path, for requests whose target is a path alone. Each entry leads to upstreams (`forward`) or
 * to the embedded store.
 */
import * as z from 'zod'
import { FORWARDED_STYLES } from '../http/forwarded.js'
import { comparablePath, hasDotSegment } from '../http/path.js'
import { type HostPattern, parseHostPattern } from '../net/host-pattern.js'
import {
  cidr,
  directoryPath,
  EXPECTED_CIDRS,
  filePath,
  list,
  nonEmptyList,
  oneOf,
  parsed,
  parsedItems,
  section,
  size,
  text,
} from './fields.js'
import { resourceMethod } from './methods.js'
import { EXPECTED_UPSTREAM, parseUpstreamUrl, UPSTREAM_PATTERN } from './upstream-url.js'

const PATH_PATTERN = '^/[!-~]*$'
const PATH = /^\/[!"$->@-~]*$/
const EXPECTED_PATH = 'expected a path such as / or /v1'
const EXPECTED_HOST = 'a host name, "*.example.com", an IP address or a CIDR'

const hostText = text(EXPECTED_HOST)

const host = parsedItems(
  z
    .union([hostText, nonEmptyList(hostText, 'a list of hosts')], {
      error: `expected ${EXPECTED_HOST}, or a list of them`,
    })
    .meta({ title: `${EXPECTED_HOST}, or a list of them` }),
  (written): HostPattern => {
    const pattern = parseHostPattern(written, { expected: EXPECTED_HOST })
    if (pattern.kind !== 'any') return pattern
    throw new RangeError(`expected ${EXPECTED_HOST}, found "*"; leave the key out for every host`)
  },
)

const EVERY_HOST: readonly HostPattern[] = [{ kind: 'any' }]

const path = parsed(text('a path such as / or /v1', { pattern: PATH_PATTERN }), value => {
  if (!PATH.test(value)) throw new RangeError(`${EXPECTED_PATH}, found "${value}"`)
  if (hasDotSegment(value)) throw new RangeError(`${EXPECTED_PATH}, found "${value}", with a dot segment`)
  return comparablePath(value)
})

const upstreamText = text('a URL such as "http://10.0.0.5:8080"', { pattern: UPSTREAM_PATTERN })

const forward = parsedItems(
  z
    .union([upstreamText, nonEmptyList(upstreamText, 'a list of URLs')], {
      error: `${EXPECTED_UPSTREAM}, or a list of them`,
    })
    .meta({ title: 'a URL such as "http://10.0.0.5:8080", or a list of them' }),
  parseUpstreamUrl,
)

const EVICT = ['never', 'least-recently-used'] as const

/** `directory` of a store when the key is absent. */
export const DEFAULT_DIRECTORY = './data'

const store = section({
  directory: directoryPath
    .prefault(DEFAULT_DIRECTORY)
    .describe('Where the store keeps its content. It is created at the first write.'),
  write: list(cidr, EXPECTED_CIDRS)
    .prefault(['127.0.0.0/8', '::1/128'])
    .describe('Addresses of clients that may change the content.'),
  max_object: size('1B', '1024GiB').prefault('1GiB').describe('Largest representation.'),
  max_total: size('1B', '1048576GiB')
    .prefault('10GiB')
    .describe(
      'Most bytes of all representations together, and 4 KiB for each file and folder that they need.',
    ),
  evict: oneOf(EVICT)
    .prefault('never')
    .describe(
      'What happens when `max_total` is reached: `never` answers 507; `least-recently-used`, with which `max_total` has to be written, removes what was neither read nor written for longest.',
    ),
}).transform(({ max_object: maxObjectBytes, max_total: maxTotalBytes, ...rest }) => ({
  ...rest,
  maxObjectBytes,
  maxTotalBytes,
}))

const hostHeaders = ['keep', 'rewrite'] as const
const DEFAULT_HOST_HEADER = 'keep'
const DEFAULT_FORWARDED = 'none'

const entry = section({
  host: z
    .exactOptional(host)
    .describe(
      'The Host that the entry is for, without port: a name, `"*.example.com"` (all names below), an IP address, a CIDR, or a list of these. Left out: every Host; a web page can then write to a store only under localhost or an address.',
    ),
  path: path.describe(
    'The path that the entry is for, with all paths below it: `/v1` is for `/v1/x`, too, and not for `/v10`. The longest that matches decides.',
  ),
  methods: z
    .exactOptional(
      list(resourceMethod('a tunnel leads to no origin'), 'a list of methods, such as [GET, HEAD]'),
    )
    .describe(
      'Methods that the entry takes; `[]` is none; TRACE only while `trace.enabled`. Left out: every method, those of `methods.extra` included, which a store never takes.',
    ),
  forward: z
    .exactOptional(forward)
    .describe('The URL of an upstream, or a list, between which requests are balanced.'),
  store: z
    .exactOptional(store)
    .describe('A store, which keeps what clients put into it, in place of `forward`.'),
  host_header: z
    .exactOptional(oneOf(hostHeaders))
    .meta({ default: DEFAULT_HOST_HEADER })
    .describe('`keep` sends the Host of the client, `rewrite` that of the URL.'),
  forwarded: z
    .exactOptional(oneOf(FORWARDED_STYLES))
    .meta({ default: DEFAULT_FORWARDED })
    .describe('The fields that tell the upstream about the client.'),
  ca: z
    .exactOptional(filePath)
    .describe('Authorities of `https://` upstreams, in PEM, in place of the public ones.'),
}).meta({ oneOf: [{ required: ['forward'] }, { required: ['store'] }] })

const FORWARD_KEYS = ['host_header', 'forwarded', 'ca'] as const

export const origins = list(
  parsed(entry, written => {
    const { forward: upstreams, store: kept } = written
    const common = { hosts: written.host ?? EVERY_HOST, path: written.path, methods: written.methods }
    if (kept !== undefined) {
      if (upstreams !== undefined) throw new RangeError('expected forward or store, found both')
      const foreign = FORWARD_KEYS.find(key => written[key] !== undefined)
      if (foreign !== undefined) throw new RangeError(`${foreign} goes with forward, found it with store`)
      return { ...common, kind: 'store' as const, store: kept }
    }
    if (upstreams === undefined) throw new RangeError('expected forward or store, found neither')
    const ca = written.ca
    if (ca !== undefined && !upstreams.some(({ scheme }) => scheme === 'https')) {
      throw new RangeError('ca is for https:// upstreams, and forward names none')
    }
    return {
      ...common,
      kind: 'forward' as const,
      upstreams,
      hostHeader: written.host_header ?? DEFAULT_HOST_HEADER,
      forwarded: written.forwarded ?? DEFAULT_FORWARDED,
      ca,
    }
  }),
  'a list of origins, each with path and forward or store',
)
  .prefault([])
  .describe(
    'What answers requests whose target is only a path (no CONNECT, no `http://`), by Host and the longest path. Rules do not apply to these, `clients` do. Without any configuration file there is a store in ./data, for the host localhost and for addresses.',
  )
  .meta({
    examples: [
      [
        {
          host: 'api.example',
          path: '/v1',
          methods: ['GET', 'HEAD'],
          forward: 'https://10.0.0.5:8443',
          host_header: 'keep',
          forwarded: 'none',
          ca: 'upstreams-ca.crt',
        },
        { host: ['localhost', '0.0.0.0/0', '::/0'], path: '/files', store: {} },
      ],
    ],
  })
