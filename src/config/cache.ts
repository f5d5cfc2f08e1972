/**
 * `cache`: where responses are stored, who shares them, and for which hosts the configuration overrides the origin.
 *
 * The URL of Redis holds no credentials: configurations are committed, shown and logged, so the password has a file of its
 * own.
 */
import * as z from 'zod'
import { parseAuthority, serializeHostPort } from '../http/authority.js'
import type { HostPattern } from '../net/host-pattern.js'
import {
  directoryPath,
  duration,
  EXPECTED_HOSTS,
  filePath,
  hostPattern,
  list,
  nonEmptyList,
  oneOf,
  parsed,
  parsedItems,
  section,
  size,
  text,
  trueOrFalse,
} from './fields.js'
import { serializeDuration, serializeSize } from './quantities.js'
import { parseRedisUrl } from './redis-url.js'

const STORES = ['memory', 'disk', 'redis'] as const

const SHARED_BY = ['user', 'client', 'everyone'] as const
/** Which clients share stored responses. */
export type SharedBy = (typeof SHARED_BY)[number]

/** The directory of `store: disk` when the key is absent. */
export const DEFAULT_CACHE_DIRECTORY = './cache'

/** An entry of `cache.rules`. If several entries name a host, the one with the most specific pattern applies. */
export interface CacheRule {
  readonly hosts: readonly HostPattern[]
  /** False: responses of these hosts are neither stored nor answered from the cache. */
  readonly store: boolean
  /** The least freshness lifetime of a response that may be stored, whatever the response says. */
  readonly minTtlMs?: number
  /** The greatest freshness lifetime. */
  readonly maxTtlMs?: number
}

interface Common {
  /** The largest content of one response. */
  readonly maxObjectBytes: number
  readonly sharedBy: SharedBy
  /** Whether Cache-Status includes the key (RFC 9211 §2.7). */
  readonly keyInStatus: boolean
  readonly rules: readonly CacheRule[]
}

export type CacheConfig = Common &
  (
    | {
        readonly store: 'memory'
        /** The most bytes that are stored, heads included. */
        readonly sizeBytes: number
      }
    | { readonly store: 'disk'; readonly sizeBytes: number; readonly directory: string }
    | {
        readonly store: 'redis'
        /** `scheme://host:port/database` of one server, or of the nodes of one cluster. */
        readonly urls: readonly string[]
        readonly user?: string
        readonly passwordFile?: string
        readonly ca?: string
      }
  )

const REDIS_PATTERN =
  '^([Rr][Ee][Dd][Ii][Ss]{1,2}://[^/?#@]+(/[0-9]{0,4})?|unix:///[^?#@]+([?]db=[0-9]{1,4})?)$'
const EXPECTED_REDIS =
  'a URL such as "redis://10.0.0.9:6379", "rediss://cache.example" or "unix:///run/redis.sock"'

export interface RedisPlace {
  readonly scheme: 'redis' | 'rediss' | 'unix'
  readonly database: number
  readonly url: string
}

/** @throws RangeError whose message says what was expected, and never repeats what precedes an `@` */
function parseRedisPlace(written: string): RedisPlace {
  if (written.includes('@')) {
    throw new RangeError(
      'found credentials in the URL; write the password into a file, its path into password_file, and the name into user',
    )
  }
  const { tls, host, port, path, database } = parseRedisUrl(written)
  if (path !== undefined) return { scheme: 'unix', database, url: written }
  const scheme = tls ? 'rediss' : 'redis'
  try {
    const authority = parseAuthority(host.includes(':') ? `[${host}]` : host, port)
    const place = serializeHostPort(authority.host, authority.port)
    return { scheme, database, url: `${scheme}://${place}/${database}` }
  } catch (error) {
    const clause = error instanceof Error ? error.message : 'with a bad host'
    throw new RangeError(`expected ${EXPECTED_REDIS}, found "${written}", ${clause}`)
  }
}

/**
 * A URL of Redis with credentials, as Redis clients take it: not for logs.
 *
 * @param url one of the configuration
 */
export function redisUrlWithCredentials(
  url: string,
  user: string | undefined,
  password: string | undefined,
): string {
  if (password === undefined) return url
  const userinfo = `${encodeURIComponent(user ?? '')}:${encodeURIComponent(password)}`
  return url.replace('://', () => `://${userinfo}@`)
}

const redisText = text(EXPECTED_REDIS, { pattern: REDIS_PATTERN })

const redisUrl = parsed(
  parsedItems(
    z
      .union([redisText, nonEmptyList(redisText, 'a list of URLs')], {
        error: `expected ${EXPECTED_REDIS}, or a list of them`,
      })
      .meta({ title: `${EXPECTED_REDIS}, or a list of them` }),
    parseRedisPlace,
  ),
  (places): readonly string[] => {
    if (new Set(places.map(({ scheme }) => scheme)).size > 1) {
      throw new RangeError('found URLs of different schemes; the nodes of one cluster are reached in one way')
    }
    if (places.length > 1 && places.some(({ database }) => database !== 0)) {
      throw new RangeError('found the number of a database in a list; a cluster has database 0 alone')
    }
    return places.map(({ url }) => url)
  },
)

const EXPECTED_USER = 'the name of a user of Redis'
const USER_PATTERN = '^[!-~]{1,128}$'
const USER = new RegExp(USER_PATTERN)

const redisUser = parsed(text(EXPECTED_USER, { pattern: USER_PATTERN }), value => {
  if (USER.test(value)) return value
  throw new RangeError(`expected ${EXPECTED_USER}, found ${JSON.stringify(value)}`)
})

const off = z.literal('off', { error: 'expected off; leave the key out to store what its origin allows' })

/** Reports a problem with a key of the map that is being parsed. */
type Refuse = (key: string, message: string) => void

/** Checks the keys of a map against each other; each problem belongs to one key. */
function checked<Input extends z.ZodType, T>(
  input: Input,
  read: (value: z.output<Input>, refuse: Refuse) => T,
) {
  return input.transform((value, context): T => {
    return read(value, (key, message) => context.addIssue({ code: 'custom', message, path: [key] }))
  })
}

const LONGEST_TTL = '365d'

const rule = checked(
  section({
    hosts: nonEmptyList(hostPattern, EXPECTED_HOSTS).describe(
      'Hosts that the entry is for, written as in `rules`; `"*"` is every host.',
    ),
    store: z
      .exactOptional(off)
      .describe('`off`: nothing of these hosts is stored, or answered from the cache.'),
    min_ttl: z
      .exactOptional(duration('1s', LONGEST_TTL))
      .describe('A response that may be stored is fresh for at least this long, whatever its origin says.'),
    max_ttl: z
      .exactOptional(duration('0s', LONGEST_TTL))
      .describe('No response is fresh for longer than this.'),
  }).meta({ anyOf: ['store', 'min_ttl', 'max_ttl'].map(key => ({ required: [key] })) }),
  ({ hosts, store, min_ttl: minTtlMs, max_ttl: maxTtlMs }, refuse): CacheRule => {
    if (store === 'off') {
      if (minTtlMs !== undefined) refuse('min_ttl', 'nothing is stored that could be fresh: store is off')
      if (maxTtlMs !== undefined) refuse('max_ttl', 'nothing is stored that could be fresh: store is off')
      return { hosts, store: false }
    }
    if (minTtlMs === undefined && maxTtlMs === undefined) {
      refuse('hosts', 'expected store: off, min_ttl or max_ttl beside them, found none of these')
    }
    if (minTtlMs !== undefined && maxTtlMs !== undefined && minTtlMs > maxTtlMs) {
      refuse(
        'min_ttl',
        `expected at most max_ttl, which is ${serializeDuration(maxTtlMs)}, found ${serializeDuration(minTtlMs)}`,
      )
    }
    return {
      hosts,
      store: true,
      ...(minTtlMs === undefined ? {} : { minTtlMs }),
      ...(maxTtlMs === undefined ? {} : { maxTtlMs }),
    }
  },
)

/** The keys that apply to one store only. */
const KEYS_OF_STORES = {
  disk: ['directory'],
  redis: ['url', 'user', 'password_file', 'ca'],
} as const

const DEFAULT_SIZE_BYTES = 256 * 1024 * 1024
const DEFAULT_MAX_OBJECT = '16MiB'

const written = section({
  store: oneOf(STORES)
    .prefault('memory')
    .describe(
      'Where responses are stored: `memory` of each worker process, `disk` for the workers of one machine, `redis` for several machines.',
    ),
  size: z
    .exactOptional(size('1MiB', '1048576GiB'))
    .meta({ default: serializeSize(DEFAULT_SIZE_BYTES) })
    .describe(
      'With `store: memory` or `disk`: most bytes of all that is stored, heads included. Redis has a `maxmemory` of its own.',
    ),
  max_object: size('1KiB', '1024GiB')
    .prefault(DEFAULT_MAX_OBJECT)
    .describe('Largest content of a response that is stored.'),
  directory: z
    .exactOptional(directoryPath)
    .meta({ default: DEFAULT_CACHE_DIRECTORY })
    .describe(
      'With `store: disk`: where responses are stored. It is created at the first write, and may not be inside the directory of a store, nor contain one, nor be a directory of the system.',
    ),
  url: z
    .exactOptional(redisUrl)
    .describe(
      'With `store: redis`: `redis://HOST:PORT/DATABASE`, `rediss://` for TLS or `unix:///PATH` for a Unix socket, without a password; or a list of the nodes of one cluster.',
    )
    .meta({ examples: ['redis://10.0.0.9:6379'] }),
  user: z
    .exactOptional(redisUser)
    .describe('With `store: redis`: the user to log in as. Left out: the default user.')
    .meta({ examples: ['sluice'] }),
  password_file: z
    .exactOptional(filePath)
    .describe('With `store: redis`: a file with one line, the password. Left out: no password.')
    .meta({ examples: ['redis.password'] }),
  ca: z
    .exactOptional(filePath)
    .describe('Authorities of `rediss://` URLs, in PEM, in place of the public ones.')
    .meta({ examples: ['redis-ca.crt'] }),
  shared_by: oneOf(SHARED_BY)
    .prefault('user')
    .describe(
      'Who shares what is stored: each `user` has a separate part (an entry of `clients` without users has one); `client`: all users of one entry share it; `everyone`: all clients with the same rules do.',
    ),
  key_in_status: trueOrFalse().prefault(false).describe('Whether `Cache-Status` tells clients the key.'),
  rules: list(rule, 'a list of entries, each with hosts and store: off, min_ttl or max_ttl')
    .prefault([])
    .describe(
      'Entries that override what the origins of some hosts say. If several name a host, the most specific pattern decides.',
    )
    .meta({
      examples: [
        [
          { hosts: ['api.example'], store: 'off' },
          { hosts: ['*.packages.example'], min_ttl: '1h', max_ttl: '1d' },
        ],
      ],
    }),
})

const settings = checked(written, (file, refuse): CacheConfig => {
  for (const [kind, keys] of Object.entries(KEYS_OF_STORES)) {
    if (kind === file.store) continue
    for (const key of keys) {
      if (file[key] !== undefined)
        refuse(key, `${key} goes with store: ${kind}, found it with store: ${file.store}`)
    }
  }
  const { size: sizeBytes = DEFAULT_SIZE_BYTES, max_object: maxObjectBytes } = file
  if (maxObjectBytes > sizeBytes && file.store !== 'redis') {
    refuse(
      file.size === undefined ? 'max_object' : 'size',
      `expected at least max_object in size, which is ${serializeSize(maxObjectBytes)}, found ${serializeSize(sizeBytes)}`,
    )
  }
  const common: Common = {
    maxObjectBytes,
    sharedBy: file.shared_by,
    keyInStatus: file.key_in_status,
    rules: file.rules,
  }
  switch (file.store) {
    case 'memory':
      return { ...common, store: 'memory', sizeBytes }
    case 'disk': {
      const { directory = DEFAULT_CACHE_DIRECTORY } = file
      return { ...common, store: 'disk', sizeBytes, directory }
    }
    case 'redis':
      return { ...common, store: 'redis', ...redisOf(file, refuse) }
  }
})

function redisOf(
  { size, url: urls, user, password_file: passwordFile, ca }: z.output<typeof written>,
  refuse: Refuse,
) {
  if (size !== undefined) {
    refuse('size', 'size goes with store: memory or disk; Redis keeps to a maxmemory of its own')
  }
  if (urls === undefined) {
    refuse('store', 'store: redis needs url, such as "redis://10.0.0.9:6379"')
  } else if (ca !== undefined && urls.every(url => url.startsWith('redis://'))) {
    refuse('ca', 'ca is for rediss:// URLs, and url names none')
  }
  if (user !== undefined && passwordFile === undefined)
    refuse('user', 'a user logs in with a password; set password_file too')
  return {
    urls: urls ?? [],
    ...(user === undefined ? {} : { user }),
    ...(passwordFile === undefined ? {} : { passwordFile }),
    ...(ca === undefined ? {} : { ca }),
  }
}

/** The stores that need no other key: their name may replace the map. */
const shortForm = z
  .enum(['memory', 'disk'])
  .transform((store): z.input<typeof written> => ({ store }))
  .pipe(settings)

export const cache = z
  .union([shortForm, settings], {
    error: `expected memory, disk, or a map of ${Object.keys(written.shape).join(', ')}`,
  })
  .meta({ title: 'memory, disk, or a map' })
