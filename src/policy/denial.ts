/**
 * Denials: the closed list of reasons, and their texts.
 *
 * `message` goes into the reason phrase and `detail` into the body. Each names what was denied and the configuration key
 * that decides it, because its reader sees a failed build and not the configuration file.
 */
import { type Host, serializeHostPort } from '../http/authority.js'
import {
  type AddressClass,
  classifyAddress,
  isNeverPermitted,
  type MetadataService,
  metadataService,
  metadataServiceOf,
} from '../net/address-class.js'
import { type Cidr, cidrOfAddress } from '../net/cidr.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import { parseIpAddress } from '../net/ip-address.js'
import { portsContain, serializePorts } from '../net/ports.js'
import { type CompiledRule, listPlace, type PlacedPattern, type RequestForm } from './rules.js'

/** Vetting gives `address` and `parent`, admission most others; both give `deny_address` and `own_address`. */
export const DENY_REASONS = [
  'deny_host',
  'localhost',
  'literal',
  'single_label',
  'no_rule',
  'method',
  'port',
  'deny_address',
  'address',
  'own_address',
  'parent',
] as const

export type DenyReason = (typeof DENY_REASONS)[number]

/** A denial, as a value. 508 is for requests that would come back to the proxy itself. */
export interface Denial {
  readonly kind: 'deny'
  readonly reason: DenyReason
  /** The nearest rule; undefined if no rule names the host. */
  readonly rule: string | undefined
  readonly status: 403 | 508
  /** One short clause in printable ASCII. */
  readonly message: string
  /** One to three sentences. */
  readonly detail: string
  /** The denied address in canonical text, if an address is the reason. */
  readonly address: string | undefined
  readonly addressClass: AddressClass | undefined
  /** The file of deny.hosts_file that lists the host, if one does. */
  readonly hostsFile: string | undefined
}

/** The request, as far as the texts need it. */
export interface RequestedTarget {
  readonly form: RequestForm
  readonly method: string
  readonly host: Host
  readonly port: number
}

export interface DenialText {
  readonly message: string
  readonly detail: string
}

interface Circumstances {
  readonly rule?: string | undefined
  readonly status?: 508
  readonly address?: string
  readonly addressClass?: AddressClass
  readonly hostsFile?: string | undefined
}

/** A denial whose texts are created when they are read: creating them costs more than the decision. */
class DescribedDenial implements Denial {
  readonly kind = 'deny'
  readonly reason: DenyReason
  readonly rule: string | undefined
  readonly status: 403 | 508
  readonly address: string | undefined
  readonly addressClass: AddressClass | undefined
  readonly hostsFile: string | undefined
  readonly #describe: () => DenialText
  #words: DenialText | undefined

  constructor(reason: DenyReason, describe: () => DenialText, circumstances: Circumstances) {
    this.reason = reason
    this.rule = circumstances.rule
    this.status = circumstances.status ?? 403
    this.address = circumstances.address
    this.addressClass = circumstances.addressClass
    this.hostsFile = circumstances.hostsFile
    this.#describe = describe
  }

  get message(): string {
    return this.#described.message
  }

  get detail(): string {
    return this.#described.detail
  }

  get #described(): DenialText {
    this.#words ??= this.#describe()
    return this.#words
  }
}

const NO_CIRCUMSTANCES: Circumstances = {}

export function deny(
  reason: DenyReason,
  describe: () => DenialText,
  circumstances: Circumstances = NO_CIRCUMSTANCES,
): Denial {
  return new DescribedDenial(reason, describe, circumstances)
}

export function denyHost({ host, port }: RequestedTarget, denied: PlacedPattern): Denial {
  const describe = (): DenialText => ({
    message: `${deniedKey(denied)} refuses ${serializeHostPort(host, port)}`,
    detail: `${deniedHolder(denied)}, which matches ${host.name}, and a denial wins over every rule. ${deniedRemedy(denied)}`,
  })
  return deny('deny_host', describe, { hostsFile: denied.list?.file })
}

/** The key that denies a host. */
export function deniedKey({ list }: PlacedPattern): 'deny.hosts' | 'deny.hosts_file' {
  return list === undefined ? 'deny.hosts' : 'deny.hosts_file'
}

/** The key or the line that holds the pattern that denies a host, and the pattern. */
export function deniedHolder(denied: PlacedPattern): string {
  const place = listPlace(denied)
  const holder = place === undefined ? 'deny.hosts' : `${place}, of deny.hosts_file,`
  return `${holder} holds "${serializeHostPattern(denied.pattern)}"`
}

/** A sentence. */
export function deniedRemedy({ pattern, list }: PlacedPattern): string {
  return `Remove "${serializeHostPattern(pattern)}" from ${list?.file ?? 'deny.hosts'} to allow it.`
}

/** @param host the requested host, which is the address itself or a name that resolves to it */
export function denyAddress(host: Host, port: number, address: string, cidr: Cidr): Denial {
  const describe = (): DenialText => ({
    message: `deny.addresses refuses ${serializeHostPort(host, port)}`,
    detail: `deny.addresses holds ${cidr.text}, which holds ${address}, and a denial wins over every rule. Remove ${cidr.text} from deny.addresses to allow it.`,
  })
  return deny('deny_address', describe, { address })
}

/**
 * No rule that the client may use names the host.
 *
 * @param localhost whether the host is the proxy's own machine
 * @param hasAny whether one of these rules has `*`
 * @param usable the rules the client may use
 */
export function denyUnnamed(
  { host, port }: RequestedTarget,
  localhost: boolean,
  hasAny: boolean,
  usable: Pick<ReadonlySet<CompiledRule> | ReadonlyMap<string, CompiledRule>, 'size' | 'values'>,
): Denial {
  const message = (): string => `no rule allows ${serializeHostPort(host, port)}`
  const remedy = (): string =>
    usable.size === 0
      ? `This client may use no rule; give it one whose hosts name ${host.name}.`
      : `This client may use the rules: ${listed(usable.values(), usable.size)}. Add ${host.name} to the hosts of one of them${hasFile(usable.values()) ? ', or to a file in brackets,' : ''} to allow it.`
  if (localhost) {
    return deny('localhost', () => ({
      message: message(),
      detail: `${host.name} is the proxy's own machine, and "*" in hosts does not cover it. ${remedy()} Its addresses have to be in addresses of the same rule.`,
    }))
  }
  if (host.kind !== 'name') {
    return deny('literal', () => ({
      message: message(),
      detail:
        metadataDetail(host) ??
        `${host.name} is an address, and "*" in hosts covers names alone. ${remedy()}${addressesRemedy(host)}`,
    }))
  }
  if (hasAny && !host.name.includes('.')) {
    return deny('single_label', () => ({
      message: message(),
      detail:
        metadataDetail(host) ??
        `${host.name} is a single label, which a resolver may complete to some other name, and "*" in hosts does not cover it. ${remedy()} Or ask for the whole name, with its domain.`,
    }))
  }
  return deny('no_rule', () => ({
    message: message(),
    detail: metadataDetail(host) ?? `No rule that this client may use names ${host.name}. ${remedy()}`,
  }))
}

/** Says what a metadata service hands out and what a rule for it looks like, without advising to add one. */
function metadataDetail({ name }: Host): string | undefined {
  const ip = parseIpAddress(name)
  const service = metadataServiceOf(name)
  if (service === undefined) return undefined
  const exact = ip === undefined ? 'its address' : cidrOfAddress(ip).text
  const reached =
    ip !== undefined && isNeverPermitted(ip)
      ? NEVER
      : `It is reached only where a rule has ${name} in hosts and exactly ${exact} in addresses.`
  return `${name} is the metadata service of ${service.owner}, and no rule of this client names it. ${handsOut(service)} ${reached}`
}

function handsOut({ contents }: MetadataService): string {
  return `It hands out ${contents} to whoever asks.`
}

/** What else an address needs if it is not public. */
function addressesRemedy({ name }: Host): string {
  const ip = parseIpAddress(name)
  const found = ip === undefined ? 'global' : classifyAddress(ip)
  return found === 'global'
    ? ''
    : ` It is of class ${found}, so it has to be in addresses of the same rule, too.`
}

const MAX_NAMES = 10

/** At most ten names: a body must not have a thousand. */
function listed(rules: Iterable<CompiledRule>, count: number): string {
  const shown: string[] = []
  for (const rule of rules) if (shown.push(nameWithFiles(rule)) === MAX_NAMES) break
  const more = count - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

/** A rule, and in brackets the files that list hosts of it. */
function nameWithFiles({ name, hostLists }: CompiledRule): string {
  return hostLists.length === 0 ? name : `${name} (${hostLists.map(({ file }) => file).join(', ')})`
}

/** Whether one of the rules that are shown has its hosts out of a file. */
function hasFile(rules: Iterable<CompiledRule>): boolean {
  let shown = 0
  for (const { hostLists } of rules) {
    if (hostLists.length > 0) return true
    if (++shown === MAX_NAMES) break
  }
  return false
}

export function denyMethod({ form, method, host, port }: RequestedTarget, rule: CompiledRule): Denial {
  const describe = (): DenialText => {
    const key = `rules.${rule.name}.methods`
    const allowed = [...(rule.methods ?? [])].join(', ') || 'no method'
    const detail =
      form === 'connect'
        ? `${key} allows ${allowed}; what goes through a CONNECT tunnel cannot be seen, so a rule with methods refuses CONNECT. Remove ${key}, or add a rule without methods that names the host, to allow it.`
        : `${key} allows ${allowed}. Add ${method} to ${key} to allow it.`
    return { message: `${key} does not allow ${method} ${serializeHostPort(host, port)}`, detail }
  }
  return deny('method', describe, { rule: rule.name })
}

/** @param rule the rule that names the host; the texts are about its port list */
export function denyPort({ form, host, port }: RequestedTarget, rule: CompiledRule): Denial {
  const describe = (): DenialText => {
    const key = rule.portsKey[form]
    const shared = key === `${form}.ports`
    const elsewhere = shared ? ', or to the ports of a rule that names the host' : ''
    const hint =
      form === 'connect' && shared && portsContain(rule.ports.forward, port)
        ? ' The client sent CONNECT for this port, as some do for http:// URLs too; forward.ports counts for requests without CONNECT alone, and connect.ports is the key here.'
        : ''
    return {
      message: `${key} does not allow ${serializeHostPort(host, port)}`,
      detail: `${key} allows ${serializePorts(rule.ports[form])} only; add ${port} to ${key}${elsewhere}.${hint}`,
    }
  }
  return deny('port', describe, { rule: rule.name })
}

/** A denied address: its class, and whether the configuration could allow it. */
export interface DeniedAddress {
  readonly text: string
  /** The block of only this address; undefined for text that is not an address. */
  readonly exact: string | undefined
  readonly addressClass: AddressClass | undefined
  /** Whether no configuration can allow it. */
  readonly never: boolean
}

/** @param rule the rule that allowed the host; undefined if none did, which is possible in mode `observe` */
export function denyUnsafeAddress(
  host: Host,
  port: number,
  rule: string | undefined,
  refused: DeniedAddress,
): Denial {
  const { text, exact, addressClass } = refused
  const target = serializeHostPort(host, port)
  if (exact === undefined || addressClass === undefined) {
    const describe = (): DenialText => ({
      message: `${target} has no usable address`,
      detail: `${host.name} resolved to ${JSON.stringify(text)}, which is not a plain IP address. No configuration key allows it.`,
    })
    return deny('address', describe, { rule })
  }
  const describe = (): DenialText => {
    const key = rule === undefined ? `the addresses of a rule that allows ${target}` : addressesKey(rule)
    return {
      message: `${target} is at an address of class ${addressClass}`,
      detail: `${found(host, text, addressClass)}. ${remedy(refused, exact, key)}`,
    }
  }
  return deny('address', describe, { rule, address: text, addressClass })
}

/** @param rule the rule that restricts the host to its addresses */
export function denyUnpinnedAddress(
  host: Host,
  port: number,
  rule: string,
  {
    text,
    exact,
    addressClass,
  }: { readonly text: string; readonly exact: string; readonly addressClass: AddressClass },
): Denial {
  const describe = (): DenialText => {
    const key = addressesKey(rule)
    const service = serviceAt(text)
    const allowing =
      service === undefined ? `Add ${exact} to ${key} to allow it.` : metadataRemedy(service, exact, key)
    return {
      message: `${serializeHostPort(host, port)} is outside ${key}`,
      detail: `${found(host, text, addressClass)}. rules.${rule}.addresses_only is true, so its hosts are reached at its addresses alone. ${allowing}`,
    }
  }
  return deny('address', describe, { rule, address: text, addressClass })
}

function addressesKey(rule: string): string {
  return `rules.${rule}.addresses`
}

function found(host: Host, address: string, addressClass: AddressClass): string {
  const what = host.kind === 'name' ? `${host.name} resolved to ${address}` : `The address is ${address}`
  const service = serviceAt(address)
  const whose = service === undefined ? '' : ` (the metadata service of ${service.owner})`
  return `${what}, which is of class ${addressClass}${whose}`
}

function serviceAt(address: string): MetadataService | undefined {
  const ip = parseIpAddress(address)
  return ip && metadataService(ip)
}

const NEVER =
  'Addresses of tunnels and translators with IPv4 inside are refused always; no configuration key allows it.'

function remedy({ text, never }: DeniedAddress, exact: string, key: string): string {
  if (never) return NEVER
  const service = serviceAt(text)
  return service === undefined
    ? `Only global addresses are allowed unless a rule lists them. Add ${exact} to ${key} to allow it.`
    : metadataRemedy(service, exact, key)
}

function metadataRemedy(service: MetadataService, exact: string, key: string): string {
  return `${handsOut(service)} It is reached only where ${key} holds exactly ${exact}: a block around it does not count.`
}

/** Hosts that clients on the proxy's machine have to reach directly: their own servers, and the proxy's listeners. */
export const NO_PROXY: readonly string[] = ['localhost', '127.0.0.1', '::1']

function directAccessHint({ name }: Host): string {
  const hosts = NO_PROXY.includes(name) ? NO_PROXY : [...NO_PROXY, name]
  return `No configuration key allows it: set NO_PROXY=${hosts.join(',')} where the client runs, so that it asks directly.`
}

/** @param role the listener of Sluice that the request would have reached */
export function denyOwnAddress(host: Host, port: number, role: 'proxy' | 'admin', address: string): Denial {
  const target = serializeHostPort(host, port)
  if (role === 'proxy') {
    const describe = (): DenialText => ({
      message: `${target} is this proxy itself`,
      detail: `${target} is where this proxy itself listens: the request would come back to it. ${directAccessHint(host)}`,
    })
    return deny('own_address', describe, { status: 508, address })
  }
  const describe = (): DenialText => ({
    message: `${target} is the admin listener`,
    detail: `${target} is the admin listener, which cannot be reached through the proxy. ${directAccessHint(host)}`,
  })
  return deny('own_address', describe, { address })
}
