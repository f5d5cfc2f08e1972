/**
 * Events of the log, read back from its lines.
 *
 * What a line says of a target is taken only when it is a host and a port by the same grammar that requests are held
 * to: logs are handed around, and what comes out of them here may end in a configuration.
 */
import { isName } from '../config/fields.js'
import { type Host, parseHost } from '../http/authority.js'
import { isExtensionMethod, isMethod, type Method } from '../http/method.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'

/** What a tunnel or a forwarded request asked for; addresses are canonical, names in lower case. */
export interface LoggedTarget {
  readonly form: 'connect' | 'forward'
  readonly method: Method
  readonly host: Host
  readonly port: number
}

/** A decision or the close of an exchange; other events of the log are `other`. */
export type LogEvent =
  | {
      readonly event: 'decision'
      readonly client: string | undefined
      /** Absent when the exchange is neither a tunnel nor a forwarded request. */
      readonly target: LoggedTarget | undefined
      readonly decision: 'allow' | 'deny' | 'would_deny'
      readonly reason: string | undefined
      readonly rule: string | undefined
    }
  | {
      readonly event: 'close'
      readonly client: string | undefined
      readonly target: LoggedTarget | undefined
      readonly status: number | undefined
      /** `ip:port` of the target, IPv6 in brackets; absent when it was not connected to, or through a parent proxy. */
      readonly address: string | undefined
    }
  | { readonly event: 'other' }

const DECISIONS = ['allow', 'deny', 'would_deny'] as const

/** @returns undefined for a line that is no event, or one whose target no request can have */
export function parseLogLine(line: string): LogEvent | undefined {
  const fields = parseObject(line)
  if (fields === undefined || typeof fields['event'] !== 'string') return undefined
  const { event } = fields
  if (event !== 'decision' && event !== 'close') return { event: 'other' }
  const { kind } = fields
  const aimed = kind === 'connect' || kind === 'forward'
  const target = aimed ? parseLoggedTarget(kind, fields) : undefined
  if (aimed && target === undefined) return undefined
  const client = nameOf(fields['client'])
  if (event === 'close') {
    const { status } = fields
    return {
      event,
      client,
      target,
      status: typeof status === 'number' ? status : undefined,
      address: fields['parent'] === undefined ? textOf(fields['address']) : undefined,
    }
  }
  const decision = DECISIONS.find(known => known === fields['decision'])
  if (decision === undefined) return undefined
  return {
    event,
    client,
    target,
    decision,
    reason: textOf(fields['reason']),
    rule: nameOf(fields['rule']),
  }
}

function parseObject(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** The name of a client or a rule, which goes into messages as it is. */
function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' && isName(value) ? value : undefined
}

/** @returns undefined for what no request can have asked for */
export function parseLoggedTarget(
  form: 'connect' | 'forward',
  { method, host, port }: Readonly<Record<string, unknown>>,
): LoggedTarget | undefined {
  if (typeof method !== 'string' || !(isMethod(method) || isExtensionMethod(method))) return undefined
  if ((method === 'CONNECT') !== (form === 'connect')) return undefined
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65535) return undefined
  const parsed = typeof host === 'string' ? loggedHost(host) : undefined
  return parsed === undefined ? undefined : { form, method, host: parsed, port }
}

/** The log has IPv6 without brackets. IPv4 in IPv6 is the same address to every rule, and so it is here. */
function loggedHost(text: string): Host | undefined {
  const address = parseIpAddress(text)
  const ip = address === undefined ? undefined : unmapIpv4(address)
  if (ip !== undefined) return { kind: ip.family === 6 ? 'ipv6' : 'ipv4', name: ip.text }
  try {
    const host = parseHost(text)
    return host.kind === 'name' ? host : undefined
  } catch {
    return undefined
  }
}
