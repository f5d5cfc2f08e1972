/**
 * Checks of keys against each other: rules that clients name, methods that rules and origins name, names, addresses and
 * directories that are used twice, entries that can never match.
 *
 * Most checks use the file as it is written, so that these mistakes are reported together with all others, even if other
 * parts of the file are invalid.
 */
import { serializeHostPort } from '../http/authority.js'
import { isExtensionMethod } from '../http/method.js'
import { comparablePath } from '../http/path.js'
import { classifyAddress } from '../net/address-class.js'
import { parseHostPattern, serializeHostPattern } from '../net/host-pattern.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { EXPECTED_HOSTS, EXPECTED_NAME, isName, NOT_IN_KEYS } from './fields.js'
import { checkClientConditions } from './client-conditions.js'
import { checkDirectories } from './directories.js'
import {
  DEFAULT_ADMIN,
  type ListenAddress,
  parseListenAddress,
  serializeListenAddress,
} from './listen-address.js'
import { RESOURCE_METHODS } from './methods.js'
import { nearest } from './nearest.js'
import { type Path, quoteKey } from './problem.js'
import { type Config, DEFAULT_RULES } from './schema.js'
import type { UpstreamUrl } from './upstream-url.js'
import { hasVariables } from './variables.js'
import type { Texts } from './yaml-file.js'
import { type Fault, holdsMap, type Located, valueAt } from './yaml-tree.js'

/**
 * @param folder where relative paths start
 * @param texts those that the tree was read from
 */
export function checkReferences(root: Located, folder: string, texts: Texts): Fault[] {
  return [
    ...invalidRuleNames(root),
    ...rulesWithoutHosts(root),
    ...unknownRules(root),
    ...repeatedExtraMethods(root),
    ...unknownMethods(root),
    ...repeatedClientNames(root, texts),
    ...checkClientConditions(root),
    ...crlWithoutAuthority(root),
    ...repeatedAddresses(root),
    ...cidrOfUnixAdmin(root),
    ...addressesOnlyWithoutAddresses(root),
    ...repeatedOrigins(root),
    ...checkDirectories(root, folder),
    ...repeatedCacheHosts(root),
    ...evictionWithoutLimit(root),
  ]
}

/** Here and not in the schema, which would not check a rule with an invalid name. */
function invalidRuleNames(root: Located): Fault[] {
  return entries(valueAt(root, 'rules')).flatMap(([rule, { key }]) => {
    if (rule === 'all') {
      return [{ offset: key, path: ['rules', rule], message: '`all` is every rule; choose another name' }]
    }
    if (typeof rule === 'number' || isName(rule)) return []
    const hint = hasVariables(rule) ? `; ${NOT_IN_KEYS}` : ''
    const message = `${EXPECTED_NAME}, found ${quoteKey(rule)}${hint}`
    return [{ offset: key, path: ['rules', rule], message }]
  })
}

/** Either of two keys is required; the schema could not name them in its message. */
function rulesWithoutHosts(root: Located): Fault[] {
  return entries(valueAt(root, 'rules')).flatMap(([rule, node]) => {
    const { key, children } = node
    if (!holdsMap(node) || children.has('hosts') || children.has('hosts_file')) return []
    const message = `the key \`hosts\` is missing; expected ${EXPECTED_HOSTS}, or hosts_file with the path of a file`
    return [{ offset: key, path: ['rules', rule, 'hosts'], message }]
  })
}

function unknownRules(root: Located): Fault[] {
  const written = valueAt(root, 'rules')
  const rules =
    written === undefined ? Object.keys(DEFAULT_RULES) : entries(written).map(([rule]) => String(rule))
  return entries(valueAt(root, 'clients')).flatMap(([client, node]) =>
    entries(node.children.get('rules')).flatMap(([index, { value, start }]) => {
      if (typeof value !== 'string' || rules.includes(value)) return []
      const path = ['clients', client, 'rules', index]
      return [
        {
          offset: start,
          path,
          message: `there is no rule ${quoteKey(value)}${unknownRuleHint(value, rules)}`,
        },
      ]
    }),
  )
}

function unknownRuleHint(value: string, rules: readonly string[]): string {
  const near = nearest(value, rules)
  if (near !== undefined) return `; did you mean ${quoteKey(near)}?`
  if (value === 'all' || value === '*') return '; for every rule write `rules: all`'
  return rules.length === 0 ? '; rules is empty' : `; there are ${rules.map(quoteKey).join(', ')}`
}

function repeatedExtraMethods(root: Located): Fault[] {
  const words = extraMethods(root).map(([index, { value, start }]) => {
    const path: Path = ['methods', 'extra', index]
    return { offset: start, path, word: String(value) }
  })
  return repeated(words, word => `${word} is listed twice under methods.extra`)
}

/** Methods of rules and origins that would not pass at all. */
function unknownMethods(root: Located): Fault[] {
  const extra = extraMethods(root).map(([, { value }]) => String(value))
  return (['rules', 'origins'] as const).flatMap(section =>
    entries(valueAt(root, section)).flatMap(([entry, node]) => {
      const ofStore = node.children.has('store')
      const taken = ofStore ? RESOURCE_METHODS : [...RESOURCE_METHODS, ...extra]
      return entries(node.children.get('methods')).flatMap(([index, { value, start }]) => {
        if (typeof value !== 'string' || value === 'CONNECT' || taken.includes(value)) return []
        const message = `expected one of ${taken.join(', ')}, found "${value}"${methodHint(value, taken, ofStore)}`
        return [{ offset: start, path: [section, entry, 'methods', index], message }]
      })
    }),
  )
}

function methodHint(value: string, known: readonly string[], ofStore: boolean): string {
  const near = nearest(value, known)
  if (near !== undefined) return `; did you mean ${near}?`
  if (!isExtensionMethod(value)) return ''
  return ofStore
    ? '; a store takes no extension method'
    : '; an extension method has to be in methods.extra too'
}

function extraMethods(root: Located): [string | number, Located][] {
  return entries(valueAt(root, 'methods', 'extra')).filter(([, { value }]) => typeof value === 'string')
}

function repeatedClientNames(root: Located, texts: Texts): Fault[] {
  const names = entries(valueAt(root, 'clients')).flatMap(([client, node]) => {
    const name = node.children.get('name')
    if (name === undefined || typeof name.value !== 'string') return []
    const path: Path = ['clients', client, 'name']
    return [{ offset: name.start, path, word: name.value }]
  })
  return repeated(names, (word, first, offset) => {
    const { file, line } = texts.place(first)
    const isBeside = file === texts.place(offset).file
    const where = isBeside ? 'above' : `in ${file ?? 'the configuration file'}, line ${line}`
    return `the client name ${quoteKey(word)} is taken by an entry ${where}`
  })
}

function crlWithoutAuthority(root: Located): Fault[] {
  const tls = valueAt(root, 'listen', 'tls')
  const crl = tls?.children.get('crl')
  if (crl === undefined || tls?.children.has('client_ca')) return []
  const message = 'no certificates are requested that could be revoked; set client_ca too'
  return [{ offset: crl.key, path: ['listen', 'tls', 'crl'], message }]
}

function repeatedAddresses(root: Located): Fault[] {
  const listen = valueAt(root, 'listen')
  const proxy = entries(listen?.children.get('proxy')).map(([index, node]) => ({
    path: ['listen', 'proxy', index] as Path,
    node,
  }))
  const { path, node: admin, isImplied } = adminAddress(root)
  if (admin !== undefined) proxy.push({ path, node: admin })
  const implied = isImplied ? [{ offset: -1, path: [], word: DEFAULT_ADMIN }] : []
  const tls = listen?.children.get('tls')?.children.get('address')
  if (tls !== undefined) proxy.push({ path: ['listen', 'tls', 'address'], node: tls })
  const addresses = proxy.flatMap(({ path, node }) => {
    const address = addressOf(node.value)
    if (address === undefined || address.port === 0) return []
    return [{ offset: node.start, path, word: serializeListenAddress(address) }]
  })
  return repeated([...implied, ...addresses], word =>
    isImplied && word === DEFAULT_ADMIN
      ? `${word} is the default of listen.admin`
      : `${word} is listed twice under listen`,
  )
}

/** The path and the value of the address of the admin listener, and whether the file leaves it out. */
function adminAddress(root: Located): { path: Path; node: Located | undefined; isImplied: boolean } {
  const path = ['listen', 'admin']
  const node = valueAt(root, ...path)
  const isMap = typeof node?.value === 'object' && node.value !== null
  if (node === undefined || !isMap) return { path, node, isImplied: node === undefined }
  const address = node.children.get('address')
  return { path: [...path, 'address'], node: address, isImplied: address === undefined }
}

/** `cidr` of an admin listener on a Unix socket, whose clients have no address. */
function cidrOfUnixAdmin(root: Located): Fault[] {
  const { node } = adminAddress(root)
  const cidr = valueAt(root, 'listen', 'admin', 'cidr')
  const address = addressOf(node?.value)
  if (cidr === undefined || address === undefined || !('path' in address)) return []
  const message =
    'no client meets it: a connection over a Unix socket has no address; socket_mode says who may open it'
  return [{ offset: cidr.key, path: ['listen', 'admin', 'cidr'], message }]
}

function addressOf(value: unknown): ListenAddress | undefined {
  try {
    return typeof value === 'string' ? parseListenAddress(value) : undefined
  } catch {
    return undefined
  }
}

function addressesOnlyWithoutAddresses(root: Located): Fault[] {
  return entries(valueAt(root, 'rules')).flatMap(([rule, node]) => {
    const pin = node.children.get('addresses_only')
    if (pin?.value !== true || (node.children.get('addresses')?.children.size ?? 0) > 0) return []
    const message = 'addresses_only: true without addresses allows nothing; list them under addresses'
    return [{ offset: pin.start, path: ['rules', rule, 'addresses_only'], message }]
  })
}

/** Entries for the same requests: it would be unclear which one answers. */
function repeatedOrigins(root: Located): Fault[] {
  const places = entries(valueAt(root, 'origins')).flatMap(([index, node]) => {
    const path = node.children.get('path')
    const host = node.children.get('host')
    if (path === undefined || typeof path.value !== 'string') return []
    const hosts = host === undefined ? ['every host'] : [host.value].flat().filter(isText).map(hostText)
    const place = comparablePath(path.value)
    return hosts.map(text => ({
      offset: path.start,
      path: ['origins', index, 'path'] as Path,
      word: `${text} and ${place}`,
    }))
  })
  return repeated(places, word => `an entry above is for ${word} already`)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function hostText(text: string): string {
  try {
    return serializeHostPattern(parseHostPattern(text))
  } catch {
    return text
  }
}

/** Entries for the same hosts: it would be unclear which one applies. */
function repeatedCacheHosts(root: Located): Fault[] {
  const hosts = entries(valueAt(root, 'cache', 'rules')).flatMap(([index, node]) =>
    entries(node.children.get('hosts')).flatMap(([position, { value, start }]) => {
      if (!isText(value)) return []
      const path: Path = ['cache', 'rules', index, 'hosts', position]
      return [{ offset: start, path, word: hostText(value) }]
    }),
  )
  return repeated(hosts, word => `${word} is listed twice under cache.rules`)
}

/** Eviction requires an explicit limit. */
function evictionWithoutLimit(root: Located): Fault[] {
  return entries(valueAt(root, 'origins')).flatMap(([index, node]) => {
    const store = node.children.get('store')
    const evict = store?.children.get('evict')
    if (evict?.value !== 'least-recently-used' || store?.children.has('max_total') === true) return []
    const path: Path = ['origins', index, 'store', 'evict']
    const message = 'least-recently-used removes what max_total has no room for; write max_total beside it'
    return [{ offset: evict.start, path, message }]
  })
}

/** Parents that are listeners of the same configuration, as far as that is known without DNS. */
export function checkParentLoop(root: Located, { parent, listen }: Config): Fault[] {
  const own = [...listen.proxy, listen.tls?.address, listen.admin === false ? undefined : listen.admin]
  return (parent?.urls ?? []).flatMap(({ authority, text }, index) => {
    const { host, port } = authority
    if (!own.some(address => address !== undefined && leadsTo(authority, address))) return []
    const list = valueAt(root, 'parent', 'url', index)
    const path: Path = ['parent', 'url', ...(list === undefined ? [] : [index])]
    const message = `${text} is this proxy itself, which listens on ${serializeHostPort(host, port)}`
    return [{ offset: valueAt(root, ...path)?.start ?? 0, path, message }]
  })
}

function leadsTo({ host, port }: UpstreamUrl['authority'], listener: ListenAddress): boolean {
  if (port !== listener.port) return false
  const [ip, own] = [host.name, listener.host].map(name =>
    parseIpAddress(name === 'localhost' ? '127.0.0.1' : name),
  )
  if (ip === undefined || own === undefined) return false
  if (classifyAddress(own) === 'unspecified') return ['loopback', 'unspecified'].includes(classifyAddress(ip))
  return unmapIpv4(ip).text === unmapIpv4(own).text
}

interface Word {
  readonly offset: number
  readonly path: Path
  readonly word: string
}

/**
 * A fault for every repetition of a word, in file order.
 * @param message about a word, its first offset and that of the repetition
 */
function repeated(
  words: readonly Word[],
  message: (word: string, first: number, offset: number) => string,
): Fault[] {
  const seen = new Map<string, number>()
  const faults: Fault[] = []
  for (const { offset, path, word } of [...words].sort((a, b) => a.offset - b.offset)) {
    const first = seen.get(word)
    if (first === undefined) seen.set(word, offset)
    else faults.push({ offset, path, message: message(word, first, offset) })
  }
  return faults
}

function entries(node: Located | undefined): [string | number, Located][] {
  return [...(node?.children ?? [])]
}
